#include "collect/reference/reference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "collect/reference/references.hpp"

namespace forecost {

namespace {

constexpr std::array references{
    Reference{"dense", &affine_reference},
    Reference{"conv2d", &affine_reference},
    Reference{"conv_transpose2d", &conv_transpose2d_reference},
    Reference{"pool2d", &pool2d_reference},
    Reference{"batch_norm", &batch_norm_reference},
    Reference{"layer_norm", &layer_norm_reference},
    Reference{"activation", &activation_reference},
    Reference{"elementwise", &elementwise_reference},
    Reference{"softmax", &softmax_reference},
    Reference{"matmul", &matmul_reference},
    Reference{"attention", &attention_reference},
    Reference{"rnn", &rnn_reference},
    Reference{"embedding", &embedding_reference},
    Reference{"dropout", &dropout_reference},
    Reference{"reduce", &reduce_reference},
    Reference{"transfer", &transfer_reference},
};

const Reference* find_reference(const Task& task) {
  if (task.pass == Pass::update || task.pass == Pass::training_step) return nullptr;
  for (const Reference& each : references) {
    if (each.op == task.layer.op().name) return &each;
  }
  return nullptr;
}

}  // namespace

bool has_reference(const Task& task) { return find_reference(task) != nullptr; }

Operands reference(const Task& task, const Operands& operands) {
  const Reference* found = find_reference(task);
  if (found == nullptr) throw std::logic_error(fmt::format("{}: no reference", task_text(task)));
  return found->results(task, operands);
}

Deviation deviation_from_reference(const Task& task, const Operands& operands) {
  Deviation worst;
  for (const auto& [name, expected] : reference(task, operands)) {
    const auto found = operands.find(name);
    if (found == operands.end() || found->second.size() != expected.size()) {
      throw std::logic_error(
          fmt::format("{}: the result {} has {} elements, expected {}", task_text(task), name,
                      found == operands.end() ? 0 : found->second.size(), expected.size()));
    }
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::fabs(expected[i]));
      const double d = std::fabs(found->second[i] - expected[i]);
      difference = std::isnan(d) ? INFINITY : std::max(difference, d);
    }
    const double relative = difference == 0 ? 0 : difference / largest;
    if (relative >= worst.relative) worst = {relative, name};
  }
  return worst;
}

double reference_tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0.02;  // 8 bits of mantissa, through two roundings
    case DType::f16:
    case DType::tf32:
      return 0.005;
    default:
      return 2e-5;
  }
}

}  // namespace forecost
