#include "data/operators/attention.hpp"

#include <cmath>
#include <limits>

#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

// As frameworks compose it: products of batches of matrices, with the scale fused, and a softmax
// over the keys; training keeps its result, P.

namespace forecost::cpu {
namespace {

using dnnl::memory;

/// The recipe of one task, part by part.
class Attention {
 public:
  Attention(Recipe& recipe, const Task& task)
      : recipe_(recipe),
        engine_(recipe.engine()),
        s_(attention_shape(task.layer)),
        dtype_(task.dtype),
        type_(data_type_of(task.dtype)),
        scaled_(attributes_of()) {
    dnnl::post_ops scale;
    append_eltwise(scale, dnnl::algorithm::eltwise_linear,
                   static_cast<float>(1 / std::sqrt(static_cast<double>(s_.head_features))));
    scaled_.set_post_ops(scale);
  }

  void forward() {
    const auto q = recipe_.input("query", queries()), k = recipe_.input("key", keys()),
               v = recipe_.input("value", keys());
    const auto scores = recipe_.intermediate(pairs()), p = recipe_.intermediate(pairs());
    for (Action& action : probabilities(q, k, scores, p)) recipe_.run(std::move(action));
    const auto o = recipe_.result("dst", queries());
    recipe_.run(product({p, pairs()}, {v, keys()}, {o, queries()}, plain_));
  }

  void backward() {
    const auto q = recipe_.input("query", queries()), k = recipe_.input("key", keys()),
               v = recipe_.input("value", keys()), d_o = recipe_.input("diff_dst", queries());
    const auto p = recipe_.intermediate(pairs()), dp = recipe_.intermediate(pairs()),
               ds = recipe_.intermediate(pairs());
    const auto dq = recipe_.result("diff_query", queries()),
               dk = recipe_.result("diff_key", keys()), dv = recipe_.result("diff_value", keys());
    for (Action& action : probabilities(q, k, dp, p)) recipe_.prepare(std::move(action));

    recipe_.run(product({p, transposed(pairs())}, {d_o, queries()}, {dv, keys()}, plain_));
    recipe_.run(product({d_o, queries()}, {v, transposed(keys())}, {dp, pairs()}, plain_));
    recipe_.run(
        recipe_.primitive(describe_backward<SoftmaxBackward>(engine_, plain_, softmax(), algorithm,
                                                             pairs(), pairs(), pairs(), 2),
                          {{DNNL_ARG_DST, p}, {DNNL_ARG_DIFF_DST, dp}, {DNNL_ARG_DIFF_SRC, ds}}));
    recipe_.run(product({ds, pairs()}, {k, keys()}, {dq, queries()}, scaled_));
    recipe_.run(product({ds, transposed(pairs())}, {q, queries()}, {dk, keys()}, scaled_));
  }

 private:
  static constexpr auto algorithm = dnnl::algorithm::softmax_accurate;
  struct Matrices {
    Recipe::Id id;
    memory::desc layout;
  };

  /// [batch heads, rows, columns].
  memory::desc matrices(std::int64_t rows, std::int64_t columns) const {
    return plain({s_.batch * s_.heads, rows, columns}, type_);
  }
  memory::desc queries() const { return matrices(s_.query_length, s_.head_features); }
  memory::desc keys() const { return matrices(s_.key_length, s_.head_features); }
  memory::desc pairs() const { return matrices(s_.query_length, s_.key_length); }
  static memory::desc transposed(const memory::desc& layout) {
    return layout.permute_axes({0, 2, 1});
  }

  Action product(const Matrices& a, const Matrices& b, const Matrices& c,
                 const dnnl::primitive_attr& attributes) const {
    return recipe_.primitive(
        describe<dnnl::matmul>(engine_, attributes, a.layout, b.layout, c.layout),
        {{DNNL_ARG_SRC, a.id}, {DNNL_ARG_WEIGHTS, b.id}, {DNNL_ARG_DST, c.id}});
  }

  SoftmaxForward::primitive_desc softmax() const {
    return describe<SoftmaxForward>(engine_, plain_, dnnl::prop_kind::forward_training, algorithm,
                                    pairs(), pairs(), 2);
  }

  /// P = softmax(Q K' / sqrt d), masked where it is causal.
  std::vector<Action> probabilities(Recipe::Id q, Recipe::Id k, Recipe::Id scores, Recipe::Id p) {
    std::vector<Action> actions;
    actions.push_back(product({q, queries()}, {k, transposed(keys())}, {scores, pairs()}, scaled_));
    if (s_.causal) {
      const memory::desc one = plain({1, s_.query_length, s_.key_length}, type_);
      const auto mask = recipe_.intermediate(one);
      recipe_.prepare(with_type(dtype_, [&]<class T>() { return fill_mask<T>(mask); }));
      actions.push_back(recipe_.primitive(
          describe<dnnl::binary>(engine_, plain_, dnnl::algorithm::binary_add, pairs(), one,
                                 pairs()),
          {{DNNL_ARG_SRC_0, scores}, {DNNL_ARG_SRC_1, mask}, {DNNL_ARG_DST, scores}}));
    }
    actions.push_back(recipe_.primitive(softmax(), {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, p}}));
    return actions;
  }

  /// 0 where a query sees a key, else minus infinity.
  template <class T>
  Action fill_mask(Recipe::Id mask) const {
    return own_code("mask", [mask, s = s_](const Bound& bound) {
      return [s, values = bound.data<T>(mask)] {
        const std::int64_t before = s.key_length - s.query_length;
        for (std::int64_t i = 0; i < s.query_length; ++i) {
          for (std::int64_t j = 0; j < s.key_length; ++j) {
            store(values[i * s.key_length + j],
                  j <= before + i ? 0.F : -std::numeric_limits<float>::infinity());
          }
        }
      };
    });
  }

  Recipe& recipe_;
  const dnnl::engine& engine_;
  AttentionShape s_;
  DType dtype_;
  memory::data_type type_;
  dnnl::primitive_attr plain_ = attributes_of(), scaled_;
};

}  // namespace

void describe_attention(Recipe& recipe, const Task& task) {
  Attention attention(recipe, task);
  task.pass == Pass::forward ? attention.forward() : attention.backward();
}

}  // namespace forecost::cpu
