#pragma once

#include <cudnn.h>

#include "tests/cuda/standin/state.hpp"

namespace forecost::standin::cudnn {

struct Pooling {
  bool set = false;
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  int window_h = 1, window_w = 1, pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1;
};

struct Activation {
  bool set = false;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_RELU;
  double coefficient = 0;
};

struct Dropout {
  bool set = false;
  float probability = 0;
  void* states = nullptr;
  unsigned long long seed = 0;
};

struct LayerTables {
  Handles<cudnnPoolingDescriptor_t, Pooling> poolings{"pooling descriptor"};
  Handles<cudnnActivationDescriptor_t, Activation> activations{"activation descriptor"};
  Handles<cudnnDropoutDescriptor_t, Dropout> dropouts{"dropout descriptor"};
};
LayerTables& layer_tables();

}  // namespace forecost::standin::cudnn
