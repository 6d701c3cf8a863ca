#include "data/operators/rnn.hpp"

#include <cmath>

#include <fmt/format.h>

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {
namespace {

/// cuDNN's linear layers of a cell are the gates' input products, then their recurrent ones, in an
/// order of its own (CUDNN API, cudnnGetRNNWeightParams): gru has reset, update, candidate, where
/// the reference has update, reset, candidate.
std::int64_t gate_of(RnnCell cell, std::int64_t number) {
  if (cell == RnnCell::gru && number < 2) return 1 - number;
  return number;
}

/// The reference's parameters, layer by layer: weights_layer [direction][in][gate][hidden],
/// weights_iter [direction][hidden][gate][hidden], bias [direction][gate][hidden], of a gru with a
/// fourth one, the candidate's recurrent bias. From cuDNN's weight space: a matrix of hidden x in
/// for each gate, and two biases, whose sum is the reference's.
class Unpacked {
 public:
  Unpacked(const RnnShape& s, const std::vector<RnnRegion>& regions, std::int64_t element_bytes)
      : s_(s), regions_(regions), element_bytes_(element_bytes) {}

  /// Of gradients each of the two biases has the whole one.
  void add_to(Operands& operands, const std::vector<double>& space, const std::string& prefix,
              bool gradients) const {
    const std::int64_t gates = s_.gates(), hidden = s_.hidden_features,
                       biases = s_.cell == RnnCell::gru ? gates + 1 : gates;
    const auto grow = [](std::vector<double>& values, std::int64_t size) -> std::vector<double>& {
      values.resize(static_cast<std::size_t>(size));
      return values;
    };
    for (const RnnRegion& region : regions_) {
      const std::int64_t layer = region.layer / s_.directions(),
                         direction = region.layer % s_.directions();
      const bool recurrent = region.gate >= gates;
      const std::int64_t gate = gate_of(s_.cell, region.gate % gates);
      const auto at = [&](std::int64_t i) {
        return space[static_cast<std::size_t>(region.offset_bytes / element_bytes_ + i)];
      };
      if (region.is_bias != 0) {
        const bool own = s_.cell == RnnCell::gru && recurrent && gate == 2;
        if (gradients && recurrent && !own) continue;
        auto& bias = grow(operands[fmt::format("{}bias_{}", prefix, layer)],
                          s_.directions() * biases * hidden);
        for (std::int64_t o = 0; o < hidden; ++o) {
          bias[static_cast<std::size_t>((direction * biases + (own ? 3 : gate)) * hidden + o)] +=
              at(o);
        }
        continue;
      }
      const std::int64_t in = recurrent ? hidden : s_.input_of(layer);
      auto& weights = grow(
          operands[fmt::format("{}weights_{}_{}", prefix, recurrent ? "iter" : "layer", layer)],
          s_.directions() * in * gates * hidden);
      for (std::int64_t o = 0; o < hidden; ++o)
        for (std::int64_t i = 0; i < in; ++i) {
          weights[static_cast<std::size_t>(((direction * in + i) * gates + gate) * hidden + o)] =
              at(o * in + i);
        }
    }
  }

 private:
  RnnShape s_;
  std::vector<RnnRegion> regions_;
  std::int64_t element_bytes_;
};

}  // namespace

void describe_rnn(Recipe& recipe, const Task& task) {
  const RnnShape s = rnn_shape(task.layer);
  const bool backward = task.pass == Pass::backward;
  Rnn rnn{};
  rnn.element = recipe.element();
  rnn.tf32 = recipe.tf32();
  rnn.training = backward;
  rnn.batch = s.batch;
  rnn.steps = s.steps;
  rnn.in_features = s.in_features;
  rnn.hidden_features = s.hidden_features;
  rnn.layers = s.layers;
  rnn.bidirectional = s.bidirectional;
  rnn.cell = static_cast<Cell>(s.cell);  // in the same order
  const auto forward = recipe.plan(primitive(rnn));
  const std::int64_t element_bytes = bytes_of(recipe.plain(1));
  const auto input = recipe.plain(s.batch * s.steps * s.in_features),
             output = recipe.plain(s.batch * s.steps * s.directions() * s.hidden_features),
             space = recipe.plain(forward.info.weight_bytes / element_bytes);
  const Recipe::Uniform small{1 / std::sqrt(static_cast<double>(s.hidden_features))};
  const auto x = recipe.input("src", input), w = recipe.input("space", space, small);
  recipe.show([unpacked = Unpacked(s, recipe.rnn_regions(forward.plan), element_bytes)](
                  Operands& operands) {
    for (const auto& [name, prefix] : {std::pair{"space", ""}, std::pair{"diff_space", "diff_"}}) {
      const auto found = operands.find(name);
      if (found == operands.end()) continue;
      const std::vector<double> values = std::move(found->second);
      operands.erase(found);
      unpacked.add_to(operands, values, prefix, *prefix != '\0');
    }
  });
  if (!backward) {
    recipe.run(forward, {x, w, recipe.result("dst", output), Recipe::none});
    return;
  }
  const auto y = recipe.intermediate(output);
  const auto reserve = recipe.intermediate(Recipe::bytes(forward.info.reserve_bytes));
  recipe.prepare(forward, {x, w, y, reserve});
  rnn.direction = Direction::backward;
  const auto dy = recipe.input("diff_dst", output), dx = recipe.result("diff_src", input),
             dw = recipe.result("diff_space", space);
  recipe.run(primitive(rnn), {x, y, dy, w, reserve, dx, dw});
}

}  // namespace forecost::cuda
