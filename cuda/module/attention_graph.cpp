#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "cuda/module/attention_graph.hpp"
#include "cuda/module/cudnn_descriptors.hpp"

// Fused attention, written down as the operations that cuDNN's flash attention engines recognise
// (its documentation: "Fused Flash Attention fprop" and "bprop"): the frontend that frameworks use
// hands the library the same. The engines are particular about order and types.

namespace forecost::cuda {
namespace {

using Tensor = OperationGraph::Tensor;

class AttentionGraph {
 public:
  AttentionGraph(const Attention& p, std::size_t version)
      : p_(p), type_(to_cudnn(p.element)), version_(version) {
    if (p.element == Element::f32) {
      throw Failure(Code::unsupported, "cuDNN has fused attention in f16 and bf16 only");
    }
    if (p.causal != 0 && shifted() && version_ < 90600 &&
        (p.query_length % 64 != 0 || p.key_length % 64 != 0)) {
      throw Failure(Code::unsupported,
                    "before 9.6 cuDNN has causal attention to a longer sequence of keys for "
                    "multiples of 64 only");
    }
  }

  /// {q, k, v, o, statistics or nullptr}
  OperationGraph forward() {
    const Tensor q = graph_.operand(0, queries(), type_),
                 k = graph_.operand(1, {p_.batch, p_.heads, p_.head_features, p_.key_length}, type_,
                                    true),
                 v = graph_.operand(2, keys(), type_), o = graph_.operand(3, queries(), type_);
    const Tensor s = masked(scaled(graph_.matmul(q, k, graph_.inner(scores()))));
    const Tensor largest = graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, graph_.inner(per_query()));
    const Tensor e = pointwise(CUDNN_POINTWISE_EXP, {pointwise(CUDNN_POINTWISE_SUB, {s, largest})});
    const Tensor sum = graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, e, graph_.inner(per_query()));
    // Also where nobody reads them: the engines know no softmax without.
    const Tensor log = graph_.pointwise(CUDNN_POINTWISE_LOG, {sum}, graph_.inner(per_query()));
    graph_.pointwise(CUDNN_POINTWISE_ADD, {largest, log},
                     p_.training != 0 ? graph_.operand(4, per_query(), CUDNN_DATA_FLOAT)
                                      : graph_.inner(per_query()));
    const Tensor probabilities =
        graph_.pointwise(CUDNN_POINTWISE_DIV, {e, sum}, graph_.inner(scores(), type_));
    graph_.matmul(probabilities, v, o);
    return std::move(graph_);
  }

  /// {q, k, v, o, do, statistics, dq, dk, dv}
  OperationGraph backward() {
    if (version_ <= 91500 && p_.key_length % 128 != 0) {
      throw Failure(Code::unsupported,
                    "up to 9.15 cuDNN's gradient of fused attention needs key lengths that are "
                    "multiples of 128");
    }
    const OperationGraph::Dims transposed_keys{p_.batch, p_.heads, p_.head_features, p_.key_length},
        transposed_scores{p_.batch, p_.heads, p_.key_length, p_.query_length};
    const Tensor q = graph_.operand(0, queries(), type_),
                 k = graph_.operand(1, transposed_keys, type_, true),
                 v = graph_.operand(2, transposed_keys, type_, true),
                 o = graph_.operand(3, queries(), type_), d_o = graph_.operand(4, queries(), type_),
                 statistics = graph_.operand(5, per_query(), CUDNN_DATA_FLOAT),
                 dq = graph_.operand(6, queries(), type_), dk = graph_.operand(7, keys(), type_),
                 dv = graph_.operand(8, keys(), type_);

    // sum(dO O), of each query
    const Tensor products =
        graph_.pointwise(CUDNN_POINTWISE_MUL, {d_o, o}, graph_.inner(queries()));
    const Tensor sums = graph_.pointwise(
        CUDNN_POINTWISE_MUL,
        {graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, graph_.inner(per_query())),
         graph_.scalar(1.0F)},
        graph_.scratch(per_query()));
    // P again, from the statistics
    const Tensor s = pointwise(CUDNN_POINTWISE_SUB,
                               {scaled(graph_.matmul(q, k, graph_.inner(scores()))), statistics});
    const Tensor probabilities = pointwise(CUDNN_POINTWISE_EXP, {masked(s)});
    // dV = P' dO
    graph_.matmul(graph_.reshape(probabilities, graph_.inner(transposed_scores, type_, true)), d_o,
                  dv);
    // dS = P (dO V' - sums), scaled
    const Tensor dp = graph_.matmul(d_o, v, graph_.inner(scores()));
    const Tensor ds = scaled(pointwise(
        CUDNN_POINTWISE_MUL, {pointwise(CUDNN_POINTWISE_SUB, {dp, sums}), probabilities}));
    // dK = dS' Q
    graph_.matmul(graph_.reshape(ds, graph_.inner(transposed_scores, type_, true)), q, dk);
    // dQ = dS K, summed up in f32
    const Tensor summed = graph_.matmul(ds, graph_.reshape(k, graph_.inner(keys(), type_)),
                                        graph_.scratch(queries()));
    graph_.pointwise(CUDNN_POINTWISE_IDENTITY, {summed}, dq);
    return std::move(graph_);
  }

 private:
  OperationGraph::Dims queries() const {
    return {p_.batch, p_.heads, p_.query_length, p_.head_features};
  }
  OperationGraph::Dims keys() const {
    return {p_.batch, p_.heads, p_.key_length, p_.head_features};
  }
  OperationGraph::Dims scores() const {
    return {p_.batch, p_.heads, p_.query_length, p_.key_length};
  }
  OperationGraph::Dims per_query() const { return {p_.batch, p_.heads, p_.query_length, 1}; }
  bool shifted() const { return p_.query_length != p_.key_length; }

  /// In f32, of each score.
  Tensor pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs) {
    return graph_.pointwise(mode, inputs, graph_.inner(scores()));
  }

  Tensor scaled(const Tensor& s) {
    if (!scale_) {
      scale_ = graph_.scalar(1 / std::sqrt(static_cast<float>(p_.head_features)));
    }
    return pointwise(CUDNN_POINTWISE_MUL, {s, *scale_});
  }

  /// -infinity where a query does not see a key: the queries are the last ones of the keys.
  Tensor masked(const Tensor& s) {
    if (p_.causal == 0) return s;
    const auto integers = [this] { return graph_.inner(scores(), CUDNN_DATA_INT32); };
    Tensor row = graph_.index(2, s, integers());
    const Tensor column = graph_.index(3, s, integers());
    if (shifted()) {
      row = graph_.pointwise(CUDNN_POINTWISE_ADD, {row, graph_.scalar(to_int(p_.key_length))},
                             integers());
      row = graph_.pointwise(CUDNN_POINTWISE_SUB, {row, graph_.scalar(to_int(p_.query_length))},
                             integers());
    }
    const Tensor seen = graph_.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column},
                                         graph_.inner(scores(), CUDNN_DATA_BOOLEAN));
    // Engines before 9.10 want a finite number.
    const float unseen = version_ < 91000 ? std::numeric_limits<float>::lowest()
                                          : -std::numeric_limits<float>::infinity();
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, {s, graph_.scalar(unseen), seen});
  }

  const Attention& p_;
  cudnnDataType_t type_;
  std::size_t version_;
  OperationGraph graph_;
  std::optional<Tensor> scale_;
};

}  // namespace

OperationGraph attention_graph(const Attention& attention, std::size_t cudnn_version) {
  AttentionGraph graph(attention, cudnn_version);
  return attention.direction == Direction::forward ? graph.forward() : graph.backward();
}

}  // namespace forecost::cuda
