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
                             dnnl::algorithm algorithm, const dnnl::memory::desc& data) {
  return dnnl::eltwise_forward::primitive_desc(engine, dnnl::prop_kind::forward_training, algorithm,
                                               data, data, 0.F, 0.F, attributes);
}

inline auto describe_eltwise_backward(const dnnl::engine& engine,
                                      const dnnl::primitive_attr& attributes,
                                      const dnnl::eltwise_forward::primitive_desc& forward,
                                      dnnl::algorithm algorithm, const dnnl::memory::desc& data) {
  return dnnl::eltwise_backward::primitive_desc(engine, algorithm, data, data, data, 0.F, 0.F,
                                                forward, attributes);
}

inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm) {
  operations.append_eltwise(algorithm, 0.F, 0.F);
}

#else

using PoolForward = dnnl::pooling_v2_forward;
using PoolBackward = dnnl::pooling_v2_backward;

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
                             dnnl::algorithm algorithm, const dnnl::memory::desc& data) {
  return describe<dnnl::eltwise_forward>(engine, attributes, dnnl::prop_kind::forward_training,
                                         algorithm, data, 0.F, 0.F);
}

inline auto describe_eltwise_backward(const dnnl::engine& engine,
                                      const dnnl::primitive_attr& attributes,
                                      const dnnl::eltwise_forward::primitive_desc& forward,
                                      dnnl::algorithm algorithm, const dnnl::memory::desc& data) {
  return describe_backward<dnnl::eltwise_backward>(engine, attributes, forward, algorithm, data,
                                                   data, 0.F, 0.F);
}

inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm) {
  operations.append_eltwise(1.F, algorithm, 0.F, 0.F);
}

#endif

}  // namespace forecost::cpu
