#include "data/operators/rnn.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

// A primitive for each of the stacked layers, with both directions in one: as frameworks on oneDNN
// run it, since the library stacks only layers of equal width itself. Sequences are steps x batch x
// features, the first states are zeros that are given, as frameworks do (without any, oneDNN 2.6
// gets gradients of the recurrent weights wrong), the last ones are not asked for, and the two
// biases of a gate are their sum, but for the gru's last gate. Gradients are f32, also of bf16, as
// the library has them.

namespace forecost::cpu {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

/// One of the stacked layers in oneDNN's terms.
struct Stacked {
  dnnl::rnn_direction direction;
  memory::desc src, state, cell_state, weights_layer, weights_iter, bias, dst;

  /// The same of the gradients.
  Stacked gradients() const {
    constexpr auto f32 = memory::data_type::f32;
    return {direction,  plain(src.dims(), f32),         plain(state.dims(), f32),
            cell_state, any(weights_layer.dims(), f32), any(weights_iter.dims(), f32),
            bias,       plain(dst.dims(), f32)};
  }
};

const memory::desc none;  ///< of the last states

struct Vanilla {
  using Forward = dnnl::vanilla_rnn_forward;
  static auto forward(const dnnl::engine& engine, prop_kind kind, const Stacked& s) {
    return describe<Forward>(engine, attributes_of(), kind, dnnl::algorithm::eltwise_tanh,
                             s.direction, s.src, s.state, s.weights_layer, s.weights_iter, s.bias,
                             s.dst, none);
  }
  static auto backward(const dnnl::engine& engine, const Forward::primitive_desc& forward,
                       const Stacked& s) {
    const Stacked d = s.gradients();
    return describe_backward<dnnl::vanilla_rnn_backward>(
        engine, attributes_of(), forward, prop_kind::backward, dnnl::algorithm::eltwise_tanh,
        s.direction, s.src, s.state, s.weights_layer, s.weights_iter, s.bias, s.dst, none, d.src,
        d.state, d.weights_layer, d.weights_iter, d.bias, d.dst, none);
  }
};

struct Lstm {
  using Forward = dnnl::lstm_forward;
  static auto forward(const dnnl::engine& engine, prop_kind kind, const Stacked& s) {
    return describe<Forward>(engine, attributes_of(), kind, s.direction, s.src, s.state,
                             s.cell_state, s.weights_layer, s.weights_iter, s.bias, s.dst, none,
                             none);
  }
  static auto backward(const dnnl::engine& engine, const Forward::primitive_desc& forward,
                       const Stacked& s) {
    const Stacked d = s.gradients();
    return describe_backward<dnnl::lstm_backward>(
        engine, attributes_of(), forward, prop_kind::backward, s.direction, s.src, s.state,
        s.cell_state, s.weights_layer, s.weights_iter, s.bias, s.dst, none, none, d.src, d.state,
        d.cell_state, d.weights_layer, d.weights_iter, d.bias, d.dst, none, none);
  }
};

struct Gru {
  using Forward = dnnl::lbr_gru_forward;
  static auto forward(const dnnl::engine& engine, prop_kind kind, const Stacked& s) {
    return describe<Forward>(engine, attributes_of(), kind, s.direction, s.src, s.state,
                             s.weights_layer, s.weights_iter, s.bias, s.dst, none);
  }
  static auto backward(const dnnl::engine& engine, const Forward::primitive_desc& forward,
                       const Stacked& s) {
    const Stacked d = s.gradients();
    return describe_backward<dnnl::lbr_gru_backward>(
        engine, attributes_of(), forward, prop_kind::backward, s.direction, s.src, s.state,
        s.weights_layer, s.weights_iter, s.bias, s.dst, none, d.src, d.state, d.weights_layer,
        d.weights_iter, d.bias, d.dst, none);
  }
};

Stacked layer_of(const RnnShape& s, std::int64_t layer, memory::data_type type) {
  const std::int64_t d = s.directions(), h = s.hidden_features, in = s.input_of(layer);
  const std::int64_t biases = s.gates() + (s.cell == RnnCell::gru ? 1 : 0);
  return {s.bidirectional ? dnnl::rnn_direction::bidirectional_concat
                          : dnnl::rnn_direction::unidirectional_left2right,
          plain({s.steps, s.batch, in}, type),
          plain({1, d, s.batch, h}, type),
          plain({1, d, s.batch, h}, memory::data_type::f32),
          any({1, d, in, s.gates(), h}, type),
          any({1, d, h, s.gates(), h}, type),
          plain({1, d, biases, h}, memory::data_type::f32),
          plain({s.steps, s.batch, d * h}, type)};
}

memory::desc layout_of(const dnnl::primitive_desc_base& description, int argument) {
  return description.query_md(dnnl::query::exec_arg_md, argument);
}

/// The same values in another layout, before anything is timed.
Recipe::Id prepared_copy(Recipe& recipe, Recipe::Id from, const memory::desc& layout) {
  const dnnl::engine& engine = recipe.engine();
  const auto to = recipe.intermediate(layout);
  recipe.prepare(
      recipe.primitive(dnnl::reorder::primitive_desc(engine, recipe.tensors()[from].layout, engine,
                                                     layout, attributes_of()),
                       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}));
  return to;
}

/// Weights as a primitive wants them. A layout that only the library can read is made of another,
/// which the reference sees.
Recipe::Id weights(Recipe& recipe, const std::string& name, const memory::desc& wanted,
                   memory::data_type type, Uniform values) {
  if (!is_opaque(wanted)) return recipe.input(name, wanted, values);
  return prepared_copy(recipe, recipe.input(name, plain(wanted.dims(), type), values), wanted);
}

/// The zeros that a layer begins with.
std::map<int, Recipe::Id> first_states(Recipe& recipe, const RnnShape& s, const Stacked& layer) {
  std::map<int, Recipe::Id> states{{DNNL_ARG_SRC_ITER, recipe.intermediate(layer.state)}};
  if (s.cell == RnnCell::lstm) {
    states[DNNL_ARG_SRC_ITER_C] = recipe.intermediate(layer.cell_state);
  }
  return states;
}

std::string numbered(const char* name, std::int64_t layer) {
  return fmt::format("{}_{}", name, layer);
}

template <class Cell>
void describe_forward_pass(Recipe& recipe, const RnnShape& s, memory::data_type type,
                           Uniform values) {
  Recipe::Id x{};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const Stacked layer = layer_of(s, i, type);
    const auto forward = Cell::forward(recipe.engine(), prop_kind::forward_inference, layer);
    if (i == 0) x = recipe.input("src", layer.src);
    const auto w = weights(recipe, numbered("weights_layer", i),
                           layout_of(forward, DNNL_ARG_WEIGHTS_LAYER), type, values),
               u = weights(recipe, numbered("weights_iter", i),
                           layout_of(forward, DNNL_ARG_WEIGHTS_ITER), type, values),
               b = recipe.input(numbered("bias", i), layer.bias, values);
    const auto y =
        i + 1 == s.layers ? recipe.result("dst", layer.dst) : recipe.intermediate(layer.dst);
    auto operands = first_states(recipe, s, layer);
    operands.insert({{DNNL_ARG_SRC_LAYER, x},
                     {DNNL_ARG_WEIGHTS_LAYER, w},
                     {DNNL_ARG_WEIGHTS_ITER, u},
                     {DNNL_ARG_BIAS, b},
                     {DNNL_ARG_DST_LAYER, y}});
    recipe.run(recipe.primitive(forward, operands));
    x = y;
  }
}

/// The library adds to the gradients of the parameters: whoever calls it gives it zeros.
Action zero(std::vector<Recipe::Id> tensors) {
  return own_code("zero", [tensors = std::move(tensors)](const Bound& bound) {
    std::vector<memory> memories;
    for (const Recipe::Id id : tensors) memories.push_back(bound.memory(id));
    return [memories = std::move(memories)] {
      for (const memory& each : memories) {
        std::memset(each.get_data_handle(), 0, each.get_desc().get_size());
      }
    };
  });
}

template <class Cell>
void describe_backward_pass(Recipe& recipe, const RnnShape& s, memory::data_type type,
                            Uniform values) {
  std::vector<std::map<int, Recipe::Id>> operands;
  std::vector<dnnl::primitive_desc> descriptions;
  std::vector<Recipe::Id> accumulated;
  // The training's forward pass, whose outputs and workspaces the gradients are made of.
  Recipe::Id x{};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const Stacked layer = layer_of(s, i, type);
    const auto forward = Cell::forward(recipe.engine(), prop_kind::forward_training, layer);
    const auto backward = Cell::backward(recipe.engine(), forward, layer);
    descriptions.push_back(backward);
    if (i == 0) x = recipe.input("src", layer.src);
    const auto w = recipe.input(numbered("weights_layer", i),
                                layout_of(backward, DNNL_ARG_WEIGHTS_LAYER), values),
               u = recipe.input(numbered("weights_iter", i),
                                layout_of(backward, DNNL_ARG_WEIGHTS_ITER), values),
               b = recipe.input(numbered("bias", i), layer.bias, values),
               y = recipe.intermediate(layer.dst),
               kept = recipe.intermediate(forward.workspace_desc());
    auto read = first_states(recipe, s, layer);  // by both passes
    read.insert({{DNNL_ARG_SRC_LAYER, x},
                 {DNNL_ARG_BIAS, b},
                 {DNNL_ARG_DST_LAYER, y},
                 {DNNL_ARG_WORKSPACE, kept}});
    auto of_forward = read, of_backward = read;
    of_forward[DNNL_ARG_WEIGHTS_LAYER] =
        prepared_copy(recipe, w, layout_of(forward, DNNL_ARG_WEIGHTS_LAYER));
    of_forward[DNNL_ARG_WEIGHTS_ITER] =
        prepared_copy(recipe, u, layout_of(forward, DNNL_ARG_WEIGHTS_ITER));
    recipe.prepare(recipe.primitive(forward, of_forward));
    const auto gradient = [&](const char* name, int argument) {
      return recipe.result(numbered(name, i), layout_of(backward, argument));
    };
    const auto dw = gradient("diff_weights_layer", DNNL_ARG_DIFF_WEIGHTS_LAYER),
               du = gradient("diff_weights_iter", DNNL_ARG_DIFF_WEIGHTS_ITER),
               db = gradient("diff_bias", DNNL_ARG_DIFF_BIAS);
    accumulated.insert(accumulated.end(), {dw, du, db});
    of_backward.insert({{DNNL_ARG_WEIGHTS_LAYER, w},
                        {DNNL_ARG_WEIGHTS_ITER, u},
                        {DNNL_ARG_DIFF_WEIGHTS_LAYER, dw},
                        {DNNL_ARG_DIFF_WEIGHTS_ITER, du},
                        {DNNL_ARG_DIFF_BIAS, db}});
    for (const auto& [state, diff] : {std::pair{DNNL_ARG_SRC_ITER, DNNL_ARG_DIFF_SRC_ITER},
                                      std::pair{DNNL_ARG_SRC_ITER_C, DNNL_ARG_DIFF_SRC_ITER_C}}) {
      if (read.contains(state)) of_backward[diff] = recipe.intermediate(layout_of(backward, diff));
    }
    operands.push_back(std::move(of_backward));
    x = y;
  }
  recipe.run(zero(std::move(accumulated)));
  Recipe::Id dy = recipe.input("diff_dst", layout_of(descriptions.back(), DNNL_ARG_DIFF_DST_LAYER));
  for (auto i = static_cast<std::size_t>(s.layers); i-- > 0;) {
    const memory::desc layout = layout_of(descriptions[i], DNNL_ARG_DIFF_SRC_LAYER);
    const auto dx = i == 0 ? recipe.result("diff_src", layout) : recipe.intermediate(layout);
    operands[i][DNNL_ARG_DIFF_DST_LAYER] = dy;
    operands[i][DNNL_ARG_DIFF_SRC_LAYER] = dx;
    recipe.run(recipe.primitive(descriptions[i], operands[i]));
    dy = dx;
  }
}

template <class Cell>
void describe_cell(Recipe& recipe, const Task& task, const RnnShape& s) {
  const memory::data_type type = data_type_of(task.dtype);
  // As PyTorch initialises them.
  const Uniform values{static_cast<float>(1 / std::sqrt(static_cast<double>(s.hidden_features)))};
  if (task.pass == Pass::forward) {
    describe_forward_pass<Cell>(recipe, s, type, values);
  } else {
    describe_backward_pass<Cell>(recipe, s, type, values);
  }
}

}  // namespace

void describe_rnn(Recipe& recipe, const Task& task) {
  const RnnShape s = rnn_shape(task.layer);
  switch (s.cell) {
    case RnnCell::vanilla:
      return describe_cell<Vanilla>(recipe, task, s);
    case RnnCell::lstm:
      return describe_cell<Lstm>(recipe, task, s);
    case RnnCell::gru:
      return describe_cell<Gru>(recipe, task, s);
  }
}

}  // namespace forecost::cpu
