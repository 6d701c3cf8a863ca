#include "data/operators/reduce.hpp"

#include <algorithm>

#include "collect/reference/references.hpp"

namespace forecost {

Operands reduce_reference(const Task& task, const Operands& operands) {
  const ReduceShape s = reduce_shape(task.layer);
  const bool features = s.axis == ReduceAxis::features;
  const auto terms = static_cast<double>(features ? s.features : s.rows);
  // Calls visit(element, its result, its number among those that become one result).
  const auto for_each_element = [&](auto visit) {
    for (std::int64_t item = 0; item < s.batch; ++item)
      for (std::int64_t row = 0; row < s.rows; ++row)
        for (std::int64_t feature = 0; feature < s.features; ++feature)
          visit(static_cast<std::size_t>((item * s.rows + row) * s.features + feature),
                static_cast<std::size_t>(features ? item * s.rows + row
                                                  : item * s.features + feature),
                features ? feature : row);
  };
  if (task.pass == Pass::forward) {
    const auto& x = operands.at("src");
    std::vector<double> y(static_cast<std::size_t>(s.batch * (features ? s.rows : s.features)));
    for_each_element([&](auto element, auto result, auto number) {
      if (s.operation == ReduceOperation::max) {
        y[result] = number == 0 ? x[element] : std::max(y[result], x[element]);
      } else {
        y[result] += x[element] / (s.operation == ReduceOperation::mean ? terms : 1);
      }
    });
    return {{"dst", std::move(y)}};
  }
  const auto& dy = operands.at("diff_dst");
  std::vector<double> dx(static_cast<std::size_t>(s.batch * s.rows * s.features));
  for_each_element([&](auto element, auto result, auto number) {
    if (s.operation == ReduceOperation::max) {
      const double place = operands.at("index")[result];
      dx[element] = place == static_cast<double>(number) ? dy[result] : 0;
    } else {
      dx[element] = dy[result] / (s.operation == ReduceOperation::mean ? terms : 1);
    }
  });
  return {{"diff_src", std::move(dx)}};
}

}  // namespace forecost
