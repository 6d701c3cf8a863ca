#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/item_shape.hpp"
#include "data/layer.hpp"

namespace forecost {

/// A step of a network. `op` is an operator of the vocabulary (then `layer` is set), or a
/// structural one that changes shapes and takes no time.
struct NetworkNode {
  std::string name;
  std::string op;
  std::optional<Layer> layer;       ///< of one item, see at_batch
  std::vector<std::size_t> inputs;  ///< indices of earlier nodes; empty: the network's input
  ItemShape in, out;                ///< of the first input and of the output
  bool tied = false;                ///< its parameters are those of an earlier layer

  /// The layer at a batch of that many items; there must be one. A dense layer of a sequence has a
  /// batch of its positions for one item already.
  Layer at_batch(std::int64_t items) const;
  /// Elements that training changes, which no other layer counts.
  std::int64_t parameter_count() const;
};

/// What runs of a node in a batch.
struct LayerRun {
  std::size_t node;
  Layer layer;
  std::vector<Pass> passes;
};

struct Network {
  std::string name, title, source;
  ItemShape input;
  std::vector<NetworkNode> nodes;

  std::int64_t parameters() const;
  double forward_flops() const;  ///< of inference, batch 1

  /// What runs in a batch, in order. Inference is the forward passes, without dropout and with the
  /// stored statistics of batch_norm. Training has the gradients too, but for those of what depends
  /// on no parameter, and an update of each layer that has parameters of its own.
  std::vector<LayerRun> runs(std::int64_t batch, Mode mode) const;
};

/// Reads a network TOML; errors name file and line (UsageError).
Network load_network(const std::filesystem::path& file);
/// NAME of a shipped network or a file. Throws UsageError that lists the known ones.
Network find_network(std::string_view name_or_file);
std::vector<std::string> shipped_networks();

}  // namespace forecost
