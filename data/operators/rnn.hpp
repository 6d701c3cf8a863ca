#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/layer.hpp"

namespace forecost {

/// The cell of an `rnn` layer. `gru` is the form whose reset gate follows the product (cuDNN,
/// PyTorch, oneDNN's linear-before-reset).
enum class RnnCell : std::uint8_t { vanilla, lstm, gru };
template <>
struct EnumNames<RnnCell> {
  static constexpr std::string_view kind = "cell";
  static constexpr std::array<std::string_view, 3> names{"vanilla", "lstm", "gru"};
};

/// The parameters of an `rnn` layer: input batch x steps x in_features, output batch x steps x
/// (directions * hidden_features), through `layers` such layers one above the other. Two biases per
/// gate, as cuDNN and PyTorch have; the first state is zero.
struct RnnShape {
  std::int64_t batch, steps, in_features, hidden_features, layers;
  bool bidirectional;
  RnnCell cell;

  std::int64_t gates() const {
    constexpr std::array<std::int64_t, 3> gates{1, 4, 3};
    return gates[static_cast<std::size_t>(cell)];
  }
  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  /// Features that layer number `layer`, from 0, reads.
  std::int64_t input_of(std::int64_t layer) const {
    return layer == 0 ? in_features : directions() * hidden_features;
  }
};
/// The layer must be an rnn.
RnnShape rnn_shape(const Layer& layer);

extern const Operator rnn_operator;

}  // namespace forecost
