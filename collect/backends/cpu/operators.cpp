#include <array>

#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

namespace {

constexpr std::array operators_here{
    CpuOperator{"dense", &describe_affine},
    CpuOperator{"conv2d", &describe_affine},
    CpuOperator{"layer_norm", &describe_layer_norm},
    CpuOperator{"activation", &describe_activation},
    CpuOperator{"elementwise", &describe_elementwise},
    CpuOperator{"softmax", &describe_softmax},
};

}  // namespace

const CpuOperator* find_cpu_operator(std::string_view name) {
  for (const CpuOperator& op : operators_here) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace forecost::cpu
