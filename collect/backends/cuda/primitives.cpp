#include "collect/backends/cuda/primitives.hpp"

namespace forecost::cuda {
namespace {

template <class Part>
Primitive envelope(Kind kind, Part Primitive::*member, const Part& part) {
  Primitive whole{};
  whole.kind = kind;
  whole.*member = part;
  return whole;
}

}  // namespace

Primitive primitive(const Copy& copy) { return envelope(Kind::copy, &Primitive::copy, copy); }
Primitive primitive(const Read& read) { return envelope(Kind::read, &Primitive::read, read); }
Primitive primitive(const Convolution& convolution) {
  return envelope(Kind::convolution, &Primitive::convolution, convolution);
}
Primitive primitive(const Gemm& gemm) { return envelope(Kind::gemm, &Primitive::gemm, gemm); }
Primitive primitive(const Pooling& pooling) {
  return envelope(Kind::pooling, &Primitive::pooling, pooling);
}
Primitive primitive(const BatchNorm& batch_norm) {
  return envelope(Kind::batch_norm, &Primitive::batch_norm, batch_norm);
}
Primitive primitive(const Softmax& softmax) {
  return envelope(Kind::softmax, &Primitive::softmax, softmax);
}
Primitive primitive(const Activation& activation) {
  return envelope(Kind::activation, &Primitive::activation, activation);
}
Primitive primitive(const Dropout& dropout) {
  return envelope(Kind::dropout, &Primitive::dropout, dropout);
}
Primitive primitive(const Rnn& rnn) { return envelope(Kind::rnn, &Primitive::rnn, rnn); }
Primitive primitive(const Attention& attention) {
  return envelope(Kind::attention, &Primitive::attention, attention);
}
Primitive primitive(const LayerNorm& layer_norm) {
  return envelope(Kind::layer_norm, &Primitive::layer_norm, layer_norm);
}
Primitive primitive(const Elementwise& elementwise) {
  return envelope(Kind::elementwise, &Primitive::elementwise, elementwise);
}
Primitive primitive(const BiasActivation& bias_activation) {
  return envelope(Kind::bias_activation, &Primitive::bias_activation, bias_activation);
}
Primitive primitive(const Embedding& embedding) {
  return envelope(Kind::embedding, &Primitive::embedding, embedding);
}
Primitive primitive(const Reduce& reduce) {
  return envelope(Kind::reduce, &Primitive::reduce, reduce);
}
Primitive primitive(const OptimizerStep& step) {
  return envelope(Kind::optimizer, &Primitive::optimizer, step);
}
Primitive primitive(const Pad& pad) { return envelope(Kind::pad, &Primitive::pad, pad); }
Primitive primitive(const AllReduce& all_reduce) {
  return envelope(Kind::all_reduce, &Primitive::all_reduce, all_reduce);
}

Primitive empty_primitive() {
  Primitive whole{};
  whole.kind = Kind::empty;
  return whole;
}

Gemm gemm_of(const Recipe& recipe, std::int64_t batch, std::int64_t m, std::int64_t n,
             std::int64_t k) {
  Gemm gemm{};
  gemm.element = recipe.element();
  gemm.tf32 = recipe.tf32();
  gemm.batch = batch;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.alpha = 1;
  gemm.policy = recipe.policy();
  gemm.workspace_limit_bytes = gemm_workspace_bytes;
  return gemm;
}

BiasActivation bias_activation(const Recipe& recipe, Direction direction, Layout layout,
                               std::int64_t n, std::int64_t channels, std::int64_t spatial,
                               Function function) {
  return {direction, recipe.element(), layout, n, channels, spatial, function};
}

void bias_gradient(Recipe& recipe, Recipe::Id dz, Recipe::Id db, Layout layout, std::int64_t n,
                   std::int64_t channels, std::int64_t spatial) {
  const auto sum = [&](Recipe::Id from, Recipe::Id to, std::int64_t outer, std::int64_t reduced,
                       std::int64_t inner) {
    recipe.run(primitive(Reduce{Direction::forward, recipe.element(), outer, reduced, inner,
                                Reduction::sum}),
               {from, to});
  };
  if (layout == Layout::nhwc || spatial == 1) return sum(dz, db, 1, n * spatial, channels);
  if (n == 1) return sum(dz, db, channels, spatial, 1);
  const auto planes = recipe.intermediate(recipe.plain(n * channels));
  sum(dz, planes, n * channels, spatial, 1);
  sum(planes, db, 1, n, channels);
}

}  // namespace forecost::cuda
