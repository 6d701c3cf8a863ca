#include "data/operators/matmul.hpp"

#include "collect/reference/references.hpp"

namespace forecost {

Operands matmul_reference(const Task& task, const Operands& operands) {
  const MatmulShape s = matmul_shape(task.layer);
  const auto &a = operands.at("src"), &b = operands.at("src1");
  // Calls visit(index into A, into B, into C) for every multiply-add.
  const auto for_each_product = [&](auto visit) {
    for (std::int64_t i = 0; i < s.batch; ++i)
      for (std::int64_t m = 0; m < s.m; ++m)
        for (std::int64_t n = 0; n < s.n; ++n)
          for (std::int64_t k = 0; k < s.k; ++k)
            visit(static_cast<std::size_t>((i * s.m + m) * s.k + k),
                  static_cast<std::size_t>((i * s.k + k) * s.n + n),
                  static_cast<std::size_t>((i * s.m + m) * s.n + n));
  };
  if (task.pass == Pass::forward) {
    std::vector<double> c(static_cast<std::size_t>(s.batch * s.m * s.n));
    for_each_product([&](auto i, auto j, auto k) { c[k] += a[i] * b[j]; });
    return {{"dst", std::move(c)}};
  }
  const auto& dc = operands.at("diff_dst");
  std::vector<double> da(a.size()), db(b.size());
  for_each_product([&](auto i, auto j, auto k) {
    da[i] += dc[k] * b[j];
    db[j] += dc[k] * a[i];
  });
  return {{"diff_src", std::move(da)}, {"diff_src1", std::move(db)}};
}

}  // namespace forecost
