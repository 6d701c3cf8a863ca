#include "data/operators/batch_norm.hpp"

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {
namespace {

using dnnl::memory;
using Flags = dnnl::normalization_flags;

constexpr float epsilon = 1e-5F;  // what frameworks take when a user gives none

dnnl::batch_normalization_forward::primitive_desc describe_forward_in(const dnnl::engine& engine,
                                                                      const memory::desc& data,
                                                                      dnnl::prop_kind kind,
                                                                      Flags flags) {
  return describe_batch_norm(engine, attributes_of(), kind, data, epsilon, flags);
}

/// The layout that the layer before leaves, if the library has a kernel for it; else the one
/// in blocks of channels, in which it always has one. What serves any layout takes 10 to 100
/// times as long: nobody waits for it, since frameworks have kernels of their own. A batch of
/// single pixels, as dense layers leave, is already in blocks if they are filled.
memory::desc layout_of(const dnnl::engine& engine, const memory::dims& dims, memory::data_type type,
                       dnnl::prop_kind kind, Flags flags) {
  const memory::desc image = image_layout(engine, dims, type);
  for (const memory::desc& layout : {image, memory::desc(dims, type, memory::format_tag::nChw16c),
                                     memory::desc(dims, type, memory::format_tag::nChw8c)}) {
    const std::string name = describe_forward_in(engine, layout, kind, flags).impl_info_str();
    if (name.find("jit") != std::string::npos) return layout;
  }
  return image;
}

}  // namespace

void describe_batch_norm(Recipe& recipe, const Task& task) {
  const BatchNormShape s = batch_norm_shape(task.layer);
  const dnnl::engine& engine = recipe.engine();
  const bool is_forward = task.pass == Pass::forward;
  const auto kind = is_forward && !s.training ? dnnl::prop_kind::forward_inference
                                              : dnnl::prop_kind::forward_training;
  const Flags flags =
      (s.training ? Flags::none : Flags::use_global_stats) | Flags::use_scale | Flags::use_shift;
  const memory::desc data = layout_of(engine, {s.batch, s.channels, s.height, s.width},
                                      data_type_of(task.dtype), kind, flags);
  const memory::desc channels = plain({s.channels}, memory::data_type::f32);
  const auto forward = describe_forward_in(engine, data, kind, flags);

  const auto statistic = [&](const char* name, Uniform values) {
    if (!s.training) return recipe.input(name, channels, values);
    return is_forward ? recipe.result(name, channels) : recipe.intermediate(channels, name);
  };
  std::map<int, Recipe::Id> common{
      {DNNL_ARG_SRC, recipe.input("src", data)},
      {DNNL_ARG_MEAN, statistic("mean", {0.1F})},
      {DNNL_ARG_VARIANCE, statistic("variance", {0.1F, 0.3F})},
      {DNNL_ARG_SCALE, recipe.input("scale", channels, {0.5F, 1})},
  };
  std::map<int, Recipe::Id> operands = common;
  operands[DNNL_ARG_SHIFT] = recipe.input("shift", channels);
  if (is_forward) {
    operands[DNNL_ARG_DST] = recipe.result("dst", data);
    recipe.run(recipe.primitive(forward, operands));
    return;
  }

  const auto dx = recipe.result("diff_src", data);
  if (s.training) {
    // For its statistics; its output goes where the gradient will be.
    operands[DNNL_ARG_DST] = dx;
    recipe.prepare(recipe.primitive(forward, operands));
  }
  if (batch_norm_gradient_takes_shift) common[DNNL_ARG_SHIFT] = operands[DNNL_ARG_SHIFT];
  common[DNNL_ARG_DIFF_DST] = recipe.input("diff_dst", data);
  common[DNNL_ARG_DIFF_SRC] = dx;
  common[DNNL_ARG_DIFF_SCALE] = recipe.result("diff_scale", channels);
  common[DNNL_ARG_DIFF_SHIFT] = recipe.result("diff_shift", channels);
  recipe.run(recipe.primitive(
      describe_batch_norm_backward(engine, attributes_of(), forward, data, epsilon, flags),
      common));
}

}  // namespace forecost::cpu
