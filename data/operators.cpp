#include <algorithm>
#include <array>

#include "data/layer.hpp"
#include "data/operators/activation.hpp"
#include "data/operators/allreduce.hpp"
#include "data/operators/attention.hpp"
#include "data/operators/batch_norm.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/conv_transpose2d.hpp"
#include "data/operators/dense.hpp"
#include "data/operators/dropout.hpp"
#include "data/operators/elementwise.hpp"
#include "data/operators/embedding.hpp"
#include "data/operators/layer_norm.hpp"
#include "data/operators/matmul.hpp"
#include "data/operators/pool2d.hpp"
#include "data/operators/reduce.hpp"
#include "data/operators/rnn.hpp"
#include "data/operators/softmax.hpp"
#include "data/operators/transfer.hpp"

namespace forecost {

std::span<const Operator* const> operators() {
  static constexpr std::array all{
      &dense_operator,     &conv2d_operator,      &matmul_operator,     &layer_norm_operator,
      &softmax_operator,   &elementwise_operator, &activation_operator, &conv_transpose2d_operator,
      &pool2d_operator,    &batch_norm_operator,  &attention_operator,  &rnn_operator,
      &embedding_operator, &dropout_operator,     &reduce_operator,     &transfer_operator,
      &allreduce_operator,
  };
  return all;
}

const Operator& find_operator(std::string_view name) {
  std::vector<std::string> known;
  for (const Operator* op : operators()) {
    if (op->name == name) return *op;
    known.emplace_back(op->name);
  }
  throw UsageError(unknown_name("operator", name, known));
}

bool Operator::has(Pass pass) const {
  return std::find(passes.begin(), passes.end(), pass) != passes.end();
}

std::optional<std::size_t> Operator::index_of(std::string_view parameter) const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == parameter) return i;
  }
  return std::nullopt;
}

Family family_of(const Operator& op, Pass pass) {
  return pass == Pass::update ? Family::memory_bound : op.family;
}

}  // namespace forecost
