#include "cuda/module/context.hpp"

namespace forecost::cuda {

Planner planner_of(Kind kind) {
  switch (kind) {
    case Kind::empty:
      return plan_empty;
    case Kind::copy:
      return plan_copy;
    case Kind::read:
      return plan_read;
    case Kind::convolution:
      return plan_convolution;
    case Kind::gemm:
      return plan_gemm;
    case Kind::pooling:
      return plan_pooling;
    case Kind::batch_norm:
      return plan_batch_norm;
    case Kind::softmax:
      return plan_softmax;
    case Kind::activation:
      return plan_activation;
    case Kind::dropout:
      return plan_dropout;
    case Kind::rnn:
      return plan_rnn;
    case Kind::attention:
      return plan_attention;
    case Kind::layer_norm:
      return plan_layer_norm;
    case Kind::elementwise:
      return plan_elementwise;
    case Kind::bias_activation:
      return plan_bias_activation;
    case Kind::embedding:
      return plan_embedding;
    case Kind::reduce:
      return plan_reduce;
    case Kind::optimizer:
      return plan_optimizer;
    case Kind::pad:
      return plan_pad;
    case Kind::all_reduce:
      return plan_all_reduce;
  }
  throw Failure(Code::failed, "no primitive of kind " + std::to_string(static_cast<int>(kind)));
}

}  // namespace forecost::cuda
