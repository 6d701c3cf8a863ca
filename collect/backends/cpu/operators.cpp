#include <array>

#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

namespace {

constexpr std::array operators_here{
    CpuOperator{"dense", &describe_affine},
    CpuOperator{"conv2d", &describe_affine},
    CpuOperator{"conv_transpose2d", &describe_affine},
    CpuOperator{"pool2d", &describe_pool2d},
    CpuOperator{"batch_norm", &describe_batch_norm},
    CpuOperator{"layer_norm", &describe_layer_norm},
    CpuOperator{"activation", &describe_activation},
    CpuOperator{"elementwise", &describe_elementwise},
    CpuOperator{"softmax", &describe_softmax},
    CpuOperator{"matmul", &describe_matmul},
    CpuOperator{"attention", &describe_attention},
    CpuOperator{"rnn", &describe_rnn},
    CpuOperator{"embedding", &describe_embedding},
    CpuOperator{"dropout", &describe_dropout},
    CpuOperator{"reduce", &describe_reduce},
    CpuOperator{"transfer", &describe_transfer},
};

}  // namespace

const CpuOperator* find_cpu_operator(std::string_view name) {
  for (const CpuOperator& op : operators_here) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace forecost::cpu
