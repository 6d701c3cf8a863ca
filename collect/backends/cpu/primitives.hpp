#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "collect/backends/cpu/onednn_compat.hpp"
#include "data/layer.hpp"

// Layers of the vocabulary as oneDNN primitives: shared by the measured cases and by whole
// networks.

namespace forecost::cpu {

/// A dense, conv2d or conv_transpose2d layer in oneDNN's terms.
///
/// Dense is an inner product, not a matmul: it is what TensorFlow's fused dense layers and ideep
/// (PyTorch's linear on oneDNN) call, it lets the library lay the weights out, and it has gradients
/// of weights and bias of its own. Convolutions use the direct algorithm, as those two do; a
/// transposed one is oneDNN's deconvolution, whose weights have the output channels first.
struct Affine {
  bool convolution;  ///< of images: conv2d and conv_transpose2d
  bool transposed;
  dnnl::memory::dims src, weights, bias, dst;  ///< bias is empty without one
  dnnl::memory::dims strides, dilates, pad_before, pad_after;
  dnnl::memory::data_type type;
  Activation activation;
  double fan_in;  ///< terms in each sum, for weights of a realistic size
};
/// Throws UsageError for another operator.
Affine affine_of(const Layer& layer, DType dtype);
dnnl::memory::data_type data_type_of(DType dtype);

/// Row-major, in the order of dims (nchw, goihw, nc): what users see.
dnnl::memory::desc plain(const dnnl::memory::dims& dims, dnnl::memory::data_type type);
/// Whatever layout the library prefers.
dnnl::memory::desc any(const dnnl::memory::dims& dims, dnnl::memory::data_type type);

/// The layout in which the library's convolutions leave images of `dims` (nchw), and in which what
/// stands between convolutions finds them. Plain where an image is one pixel: a dense layer leaves
/// those.
dnnl::memory::desc image_layout(const dnnl::engine& engine, const dnnl::memory::dims& dims,
                                dnnl::memory::data_type type);

/// Workspace is the caller's, so that its size is known and nothing is allocated in a timed run.
dnnl::primitive_attr attributes_of(Activation fused = Activation::none);

// Each throws dnnl::error (unimplemented: no kernel for it here). `src`, and `diff_dst`, may be
// any().
dnnl::primitive_desc describe_forward(const dnnl::engine& engine, const Affine& layer,
                                      dnnl::prop_kind kind, const dnnl::memory::desc& src);
dnnl::primitive_desc describe_backward_data(const dnnl::engine& engine, const Affine& layer,
                                            const dnnl::memory::desc& diff_dst);
dnnl::primitive_desc describe_backward_weights(const dnnl::engine& engine, const Affine& layer,
                                               const dnnl::memory::desc& src,
                                               const dnnl::memory::desc& diff_dst);
/// A pool2d layer in oneDNN's terms: an average leaves padding out of its divisor.
struct Pooling {
  dnnl::memory::dims src, dst, kernel, strides, pad_before, pad_after;
  dnnl::memory::data_type type;
  dnnl::algorithm algorithm;
};
/// The layer must be a pool2d.
Pooling pooling_of(const Layer& layer, DType dtype);
/// `src` is a layout that is known: any() would be plain. The output is in the same one.
PoolForward::primitive_desc describe_pool(const dnnl::engine& engine, const Pooling& layer,
                                          dnnl::prop_kind kind, const dnnl::memory::desc& src);
/// In the layouts of the forward pass, which must be that of training.
PoolBackward::primitive_desc describe_pool_backward(const dnnl::engine& engine,
                                                    const Pooling& layer,
                                                    const PoolForward::primitive_desc& forward);

/// dz = dy f'(z) from y = f(z), in the layout `data` of all three.
dnnl::primitive_desc describe_activation_backward(const dnnl::engine& engine, Activation activation,
                                                  const dnnl::memory::desc& data);

/// "brgconv:avx512_core", "jit:avx512_core", "ref:any": as the library names it.
std::string implementation_of(const dnnl::primitive_desc& description);

/// A primitive with its arguments, ready to execute again and again.
struct Step {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
};

}  // namespace forecost::cpu
