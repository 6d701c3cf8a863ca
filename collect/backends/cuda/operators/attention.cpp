#include "data/operators/attention.hpp"

#include <cmath>

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"
#include "cuda/module.hpp"

// Fused, as cuDNN's graph interface has it, where the device and the shape allow; else as
// frameworks compose it: products of batches of matrices with the scale in them, and a softmax over
// the keys. The row's implementation says which.

namespace forecost::cuda {
namespace {

class Composed {
 public:
  Composed(Recipe& recipe, const AttentionShape& s)
      : recipe_(recipe),
        s_(s),
        heads_(s.batch * s.heads),
        queries_(recipe.plain(heads_ * s.query_length * s.head_features)),
        keys_(recipe.plain(heads_ * s.key_length * s.head_features)),
        pairs_(recipe.plain(heads_ * s.query_length * s.key_length)),
        q_(recipe.input("query", queries_)),
        k_(recipe.input("key", keys_)),
        v_(recipe.input("value", keys_)) {}

  void forward() {
    const auto scores = recipe_.intermediate(pairs_), p = recipe_.intermediate(pairs_);
    recipe_.run(primitive(scores_product()), {q_, k_, scores, Recipe::none});
    recipe_.run(primitive(softmax(Direction::forward)), {scores, p});
    recipe_.run(
        primitive(gemm_of(recipe_, heads_, s_.query_length, s_.head_features, s_.key_length)),
        {p, v_, recipe_.result("dst", queries_), Recipe::none});
  }

  void backward() {
    const auto d_o = recipe_.input("diff_dst", queries_);
    const auto p = recipe_.intermediate(pairs_), dp = recipe_.intermediate(pairs_),
               ds = recipe_.intermediate(pairs_);
    recipe_.prepare(recipe_.plan(primitive(scores_product())), {q_, k_, dp, Recipe::none});
    recipe_.prepare(recipe_.plan(primitive(softmax(Direction::forward))), {dp, p});

    Gemm dv = gemm_of(recipe_, heads_, s_.key_length, s_.head_features, s_.query_length);
    dv.transpose_a = 1;
    Gemm to_dp = gemm_of(recipe_, heads_, s_.query_length, s_.key_length, s_.head_features);
    to_dp.transpose_b = 1;
    Gemm dq = gemm_of(recipe_, heads_, s_.query_length, s_.head_features, s_.key_length);
    dq.alpha = scale();
    Gemm dk = dv;
    dk.alpha = scale();
    recipe_.run(primitive(dv), {p, d_o, recipe_.result("diff_value", keys_), Recipe::none});
    recipe_.run(primitive(to_dp), {d_o, v_, dp, Recipe::none});
    recipe_.run(primitive(softmax(Direction::backward)), {p, dp, ds});
    recipe_.run(primitive(dq), {ds, k_, recipe_.result("diff_query", queries_), Recipe::none});
    recipe_.run(primitive(dk), {ds, q_, recipe_.result("diff_key", keys_), Recipe::none});
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(s_.head_features)); }
  Gemm scores_product() const {
    Gemm gemm = gemm_of(recipe_, heads_, s_.query_length, s_.key_length, s_.head_features);
    gemm.transpose_b = 1;
    gemm.alpha = scale();
    return gemm;
  }
  Softmax softmax(Direction direction) const {
    return {direction, recipe_.element(), heads_ * s_.query_length, s_.key_length,
            s_.causal ? s_.query_length : 0};
  }

  Recipe& recipe_;
  AttentionShape s_;
  std::int64_t heads_;
  Recipe::Shape queries_, keys_, pairs_;
  Recipe::Id q_, k_, v_;
};

/// False where the library has no fused kernel for it.
bool describe_fused(Recipe& recipe, const Task& task, const AttentionShape& s) {
  const bool backward = task.pass == Pass::backward;
  Attention attention{Direction::forward, recipe.element(), backward,        s.batch, s.heads,
                      s.query_length,     s.key_length,     s.head_features, s.causal};
  PlanMaker::Made forward{}, gradient{};
  try {
    forward = recipe.plan(primitive(attention));
    if (backward) {
      attention.direction = Direction::backward;
      gradient = recipe.plan(primitive(attention));
    }
  } catch (const ModuleError& error) {
    if (error.code() == Code::unsupported) return false;
    throw;
  }
  const std::int64_t heads = s.batch * s.heads;
  const auto queries = recipe.plain(heads * s.query_length * s.head_features),
             keys = recipe.plain(heads * s.key_length * s.head_features);
  const auto q = recipe.input("query", queries), k = recipe.input("key", keys),
             v = recipe.input("value", keys);
  if (!backward) {
    recipe.run(forward, {q, k, v, recipe.result("dst", queries), Recipe::none});
    return true;
  }
  const auto o = recipe.intermediate(queries), d_o = recipe.input("diff_dst", queries),
             statistics = recipe.intermediate(Recipe::f32(heads * s.query_length));
  recipe.prepare(forward, {q, k, v, o, statistics});
  recipe.run(gradient, {q, k, v, o, d_o, statistics, recipe.result("diff_query", queries),
                        recipe.result("diff_key", keys), recipe.result("diff_value", keys)});
  return true;
}

}  // namespace

void describe_attention(Recipe& recipe, const Task& task) {
  const AttentionShape s = attention_shape(task.layer);
  if (describe_fused(recipe, task, s)) return;
  Composed attention(recipe, s);
  task.pass == Pass::forward ? attention.forward() : attention.backward();
}

}  // namespace forecost::cuda
