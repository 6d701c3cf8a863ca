#include <array>

#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

namespace {

constexpr std::array operators_here{
    CudaOperator{"dense", &describe_dense},
    CudaOperator{"conv2d", &describe_conv2d},
    CudaOperator{"conv_transpose2d", &describe_conv_transpose2d},
    CudaOperator{"pool2d", &describe_pool2d},
    CudaOperator{"batch_norm", &describe_batch_norm},
    CudaOperator{"layer_norm", &describe_layer_norm},
    CudaOperator{"activation", &describe_activation},
    CudaOperator{"elementwise", &describe_elementwise},
    CudaOperator{"softmax", &describe_softmax},
    CudaOperator{"matmul", &describe_matmul},
    CudaOperator{"attention", &describe_attention},
    CudaOperator{"rnn", &describe_rnn},
    CudaOperator{"embedding", &describe_embedding},
    CudaOperator{"dropout", &describe_dropout},
    CudaOperator{"reduce", &describe_reduce},
    CudaOperator{"transfer", &describe_transfer},
};

}  // namespace

const CudaOperator* find_cuda_operator(std::string_view name) {
  for (const CudaOperator& op : operators_here) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace forecost::cuda
