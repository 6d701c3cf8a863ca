#include "data/operators/pool2d.hpp"

#include "collect/backend.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

// Pooling runs in the layout that the convolution before it leaves, as in a network that is
// measured whole (network_runner): the library pools plain nchw images three times as slowly, and
// PyTorch does so too. forward is that of inference, as of every operator here; training also
// writes the place of each maximum, one byte for four of the output.

namespace forecost::cpu {

void describe_pool2d(Recipe& recipe, const Task& task) {
  using dnnl::memory;
  const Pool2dShape s = pool2d_shape(task.layer);
  const dnnl::engine& engine = recipe.engine();
  const Pooling layer = pooling_of(task.layer, task.dtype);
  const bool max = s.mode == PoolMode::max;
  const memory::desc src = image_layout(engine, layer.src, layer.type);
  const auto forward = describe_pool(engine, layer,
                                     task.pass == Pass::forward ? dnnl::prop_kind::forward_inference
                                                                : dnnl::prop_kind::forward_training,
                                     src);
  const memory::desc dst = forward.dst_desc();

  if (task.pass == Pass::forward) {
    const auto x = recipe.input("src", src), y = recipe.result("dst", dst);
    recipe.run(recipe.primitive(forward, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}));
    return;
  }

  // Seen in 2.6.3, in nhwc and in blocks of channels: the gradient is zero.
  if (max && task.dtype == DType::bf16 && s.index_bytes() > 1) {
    throw CaseRefused(Status::unsupported,
                      "oneDNN loses bf16 gradients of a maximum of more than 256 elements");
  }
  std::map<int, Recipe::Id> operands{{DNNL_ARG_DIFF_DST, recipe.input("diff_dst", dst)},
                                     {DNNL_ARG_DIFF_SRC, recipe.result("diff_src", src)}};
  if (max) {
    const auto places = recipe.intermediate(forward.workspace_desc());
    operands[DNNL_ARG_WORKSPACE] = places;
    recipe.prepare(recipe.primitive(forward, {{DNNL_ARG_SRC, recipe.input("src", src)},
                                              {DNNL_ARG_DST, recipe.intermediate(dst)},
                                              {DNNL_ARG_WORKSPACE, places}}));
  }
  recipe.run(recipe.primitive(describe_pool_backward(engine, layer, forward), operands));
}

}  // namespace forecost::cpu
