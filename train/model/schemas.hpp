#pragma once

#include "train/model/features.hpp"

// One declaration per schema; schemas.cpp puts them into presets.

namespace forecost {

extern const FeatureSchema gemm_schema, convolution_schema, memory_bound_schema;
extern const FeatureSchema matmul_schema, layer_norm_schema, softmax_schema, elementwise_schema,
    activation_schema;
extern const FeatureSchema conv_transpose2d_schema, pool2d_schema, batch_norm_schema,
    attention_schema, rnn_schema, embedding_schema, dropout_schema, reduce_schema, transfer_schema,
    allreduce_schema;
extern const FeatureSchema justus2018_conv2d_schema, justus2018_dense_schema;

}  // namespace forecost
