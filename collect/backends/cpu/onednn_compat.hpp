#pragma once

#include <oneapi/dnnl/dnnl.hpp>

// The differences between oneDNN's v2 and v3 interfaces that this backend meets. v2 describes an
// operation first and a primitive of it second; v3 does both at once, with the same arguments in
// the same order. Only v2 (2.6) is on the machines this was tested on; the v3 branches follow its
// documentation and have not been run.

namespace forecost::cpu {

#if DNNL_VERSION_MAJOR >= 3

using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;
using SoftmaxForward = dnnl::softmax_forward;
using SoftmaxBackward = dnnl::softmax_backward;

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
              const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., attributes);
}

template <class Primitive, class Hint, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                       const Hint& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., forward, attributes);
}

inline auto describe_eltwise(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                             dnnl::algorithm algorithm, const dnnl::memory::desc& data,
                             float alpha = 0, float beta = 0) {
  return dnnl::eltwise_forward::primitive_desc(engine, dnnl::prop_kind::forward_training, algorithm,
                                               data, data, alpha, beta, attributes);
}

inline auto describe_eltwise_backward(const dnnl::engine& engine,
                                      const dnnl::primitive_attr& attributes,
                                      const dnnl::eltwise_forward::primitive_desc& forward,
                                      dnnl::algorithm algorithm, const dnnl::memory::desc& data,
                                      float alpha = 0, float beta = 0) {
  return dnnl::eltwise_backward::primitive_desc(engine, algorithm, data, data, data, alpha, beta,
                                                forward, attributes);
}

inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm, float alpha = 0) {
  operations.append_eltwise(algorithm, alpha, 0.F);
}

inline constexpr bool layer_norm_gradient_takes_shift = false;
inline auto describe_layer_norm(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                const dnnl::memory::desc& data, float epsilon,
                                dnnl::normalization_flags flags) {
  return dnnl::layer_normalization_forward::primitive_desc(
      engine, dnnl::prop_kind::forward_training, data, data, epsilon, flags, attributes);
}

inline auto describe_layer_norm_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::layer_normalization_forward::primitive_desc& forward, dnnl::prop_kind kind,
    const dnnl::memory::desc& data, float epsilon, dnnl::normalization_flags flags) {
  return dnnl::layer_normalization_backward::primitive_desc(engine, kind, data, data, data, epsilon,
                                                            flags, forward, attributes);
}

inline auto describe_batch_norm(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                dnnl::prop_kind kind, const dnnl::memory::desc& data, float epsilon,
                                dnnl::normalization_flags flags) {
  return dnnl::batch_normalization_forward::primitive_desc(engine, kind, data, data, epsilon, flags,
                                                           attributes);
}

inline auto describe_batch_norm_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::batch_normalization_forward::primitive_desc& forward,
    const dnnl::memory::desc& data, float epsilon, dnnl::normalization_flags flags) {
  return dnnl::batch_normalization_backward::primitive_desc(
      engine, dnnl::prop_kind::backward, data, data, data, epsilon, flags, forward, attributes);
}

constexpr bool batch_norm_gradient_takes_shift = false;

/// A layout that only the library's reorders can write, and nobody can read.
inline bool is_opaque(const dnnl::memory::desc& layout) {
  return layout.get_format_kind() == dnnl::memory::format_kind::opaque;
}

#else

using PoolForward = dnnl::pooling_v2_forward;
using PoolBackward = dnnl::pooling_v2_backward;
using SoftmaxForward = dnnl::softmax_v2_forward;
using SoftmaxBackward = dnnl::softmax_v2_backward;

template <class Primitive, class... Arguments>
auto describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
              const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                            engine);
}

template <class Primitive, class Hint, class... Arguments>
auto describe_backward(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                       const Hint& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes,
                                            engine, forward);
}

inline auto describe_eltwise(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                             dnnl::algorithm algorithm, const dnnl::memory::desc& data,
                             float alpha = 0, float beta = 0) {
  return describe<dnnl::eltwise_forward>(engine, attributes, dnnl::prop_kind::forward_training,
                                         algorithm, data, alpha, beta);
}

inline auto describe_eltwise_backward(const dnnl::engine& engine,
                                      const dnnl::primitive_attr& attributes,
                                      const dnnl::eltwise_forward::primitive_desc& forward,
                                      dnnl::algorithm algorithm, const dnnl::memory::desc& data,
                                      float alpha = 0, float beta = 0) {
  return describe_backward<dnnl::eltwise_backward>(engine, attributes, forward, algorithm, data,
                                                   data, alpha, beta);
}

inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm, float alpha = 0) {
  operations.append_eltwise(1.F, algorithm, alpha, 0.F);
}

/// Though it does not read it, 2.6 refuses to run without (it counts its arguments).
inline constexpr bool layer_norm_gradient_takes_shift = true;
inline auto describe_layer_norm(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                const dnnl::memory::desc& data, float epsilon,
                                dnnl::normalization_flags flags) {
  return describe<dnnl::layer_normalization_forward>(
      engine, attributes, dnnl::prop_kind::forward_training, data, epsilon, flags);
}

inline auto describe_layer_norm_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::layer_normalization_forward::primitive_desc& forward, dnnl::prop_kind kind,
    const dnnl::memory::desc& data, float epsilon, dnnl::normalization_flags flags) {
  return describe_backward<dnnl::layer_normalization_backward>(engine, attributes, forward, kind,
                                                               data, data, epsilon, flags);
}

inline auto describe_batch_norm(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                dnnl::prop_kind kind, const dnnl::memory::desc& data, float epsilon,
                                dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(engine, attributes, kind, data, epsilon,
                                                     flags);
}

inline auto describe_batch_norm_backward(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::batch_normalization_forward::primitive_desc& forward,
    const dnnl::memory::desc& data, float epsilon, dnnl::normalization_flags flags) {
  return describe_backward<dnnl::batch_normalization_backward>(
      engine, attributes, forward, dnnl::prop_kind::backward, data, data, epsilon, flags);
}

/// Although nothing depends on it.
constexpr bool batch_norm_gradient_takes_shift = true;

/// A layout that only the library's reorders can write, and nobody can read.
inline bool is_opaque(const dnnl::memory::desc& layout) {
  return layout.data.format_kind == dnnl_format_kind_rnn_packed;
}

#endif

}  // namespace forecost::cpu
