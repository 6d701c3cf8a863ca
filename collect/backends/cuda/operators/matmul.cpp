#include "data/operators/matmul.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

// Row-major operands, as frameworks hand them over. Each gradient is a product with one operand
// transposed.

namespace forecost::cuda {

void describe_matmul(Recipe& recipe, const Task& task) {
  const MatmulShape s = matmul_shape(task.layer);
  const auto a_shape = recipe.plain(s.batch * s.m * s.k),
             b_shape = recipe.plain(s.batch * s.k * s.n),
             c_shape = recipe.plain(s.batch * s.m * s.n);
  const auto a = recipe.input("src", a_shape), b = recipe.input("src1", b_shape);
  if (task.pass == Pass::forward) {
    recipe.run(primitive(gemm_of(recipe, s.batch, s.m, s.n, s.k)),
               {a, b, recipe.result("dst", c_shape), Recipe::none});
    return;
  }
  const auto dc = recipe.input("diff_dst", c_shape);
  Gemm da = gemm_of(recipe, s.batch, s.m, s.k, s.n), db = gemm_of(recipe, s.batch, s.k, s.n, s.m);
  da.transpose_b = 1;
  db.transpose_a = 1;
  recipe.run(primitive(da), {dc, b, recipe.result("diff_src", a_shape), Recipe::none});
  recipe.run(primitive(db), {a, dc, recipe.result("diff_src1", b_shape), Recipe::none});
}

}  // namespace forecost::cuda
