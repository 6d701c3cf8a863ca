#include "train/model/schemas.hpp"

#include <array>

namespace forecost {

std::span<const FeatureSchema* const> schemas(std::string_view preset) {
  static constexpr std::array standard{
      &gemm_schema,        &convolution_schema, &memory_bound_schema,
      &matmul_schema,      &layer_norm_schema,  &softmax_schema,
      &elementwise_schema, &activation_schema,  &conv_transpose2d_schema,
      &pool2d_schema,      &batch_norm_schema,  &attention_schema,
      &rnn_schema,         &embedding_schema,   &dropout_schema,
      &reduce_schema,      &transfer_schema,    &allreduce_schema};
  static constexpr std::array justus2018{&justus2018_conv2d_schema, &justus2018_dense_schema};
  if (preset == "default") return standard;
  if (preset == "justus2018") return justus2018;
  throw UsageError(unknown_name("preset", preset, presets()));
}

std::vector<std::string> presets() { return {"default", "justus2018"}; }

}  // namespace forecost
