#include <array>

#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

namespace {

constexpr std::array operators_here{
    CpuOperator{"dense", &describe_affine},
    CpuOperator{"conv2d", &describe_affine},
    CpuOperator{"layer_norm", &describe_layer_norm},
    CpuOperator{"softmax", &describe_softmax},
    CpuOperator{"elementwise", &describe_elementwise},
    CpuOperator{"activation", &describe_activation},
    CpuOperator{"attention", &describe_attention},
    CpuOperator{"embedding", &describe_embedding},
    CpuOperator{"dropout", &describe_dropout},
    CpuOperator{"transfer", &describe_transfer},
    CpuOperator{"conv_transpose2d", &describe_affine},
    CpuOperator{"pool2d", &describe_pool2d},
    CpuOperator{"batch_norm", &describe_batch_norm},
    CpuOperator{"matmul", &describe_matmul},
};

}  // namespace

const CpuOperator* find_cpu_operator(std::string_view name) {
  for (const CpuOperator& op : operators_here) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace forecost::cpu
