#include "data/operators/matmul.hpp"

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

// Row-major operands, as frameworks hand them over: both are activations, which nobody lays out for
// the library. Each gradient is a product with one operand seen transposed.

namespace forecost::cpu {

void describe_matmul(Recipe& recipe, const Task& task) {
  using dnnl::memory;
  const MatmulShape s = matmul_shape(task.layer);
  const memory::data_type type = data_type_of(task.dtype);
  const memory::desc a = plain({s.batch, s.m, s.k}, type), b = plain({s.batch, s.k, s.n}, type),
                     c = plain({s.batch, s.m, s.n}, type);
  const auto run = [&](const memory::desc& left, Recipe::Id left_id, const memory::desc& right,
                       Recipe::Id right_id, const memory::desc& product, Recipe::Id product_id) {
    recipe.run(recipe.primitive(
        describe<dnnl::matmul>(recipe.engine(), attributes_of(), left, right, product),
        {{DNNL_ARG_SRC, left_id}, {DNNL_ARG_WEIGHTS, right_id}, {DNNL_ARG_DST, product_id}}));
  };
  const auto transposed = [](const memory::desc& matrices) {
    return matrices.permute_axes({0, 2, 1});
  };

  const auto a_id = recipe.input("src", a), b_id = recipe.input("src1", b);
  if (task.pass == Pass::forward) {
    run(a, a_id, b, b_id, c, recipe.result("dst", c));
    return;
  }
  const auto dc_id = recipe.input("diff_dst", c);
  run(c, dc_id, transposed(b), b_id, a, recipe.result("diff_src", a));
  run(transposed(a), a_id, c, dc_id, b, recipe.result("diff_src1", b));
}

}  // namespace forecost::cpu
