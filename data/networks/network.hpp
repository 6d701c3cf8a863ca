#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/layer.hpp"

namespace forecost {

/// Shape of one item of a batch; a vector of features is {features, 1, 1}.
struct ItemShape {
  std::int64_t channels = 0, height = 1, width = 1;
  std::int64_t elements() const { return channels * height * width; }
  friend bool operator==(const ItemShape&, const ItemShape&) = default;
};

/// A step of a network. `op` is an operator of the vocabulary (then `layer` is set, with batch 1), or
/// a structural one that shapes depend on but that has no operator yet: pool2d, add, batch_norm,
/// flatten, ... Those are counted as uncosted wherever a time is predicted.
struct NetworkNode {
  std::string name;
  std::string op;
  std::optional<Layer> layer;
  std::vector<std::size_t> inputs;  ///< indices of earlier nodes; empty: the network's input
  ItemShape in, out;
  std::map<std::string, std::string> attributes;  ///< of structural nodes: kernel, stride, pad, mode
};

struct Network {
  std::string name, title, source;
  ItemShape input;
  std::vector<NetworkNode> nodes;

  std::int64_t parameters() const;  ///< of costed layers
  double forward_flops() const;     ///< of costed layers, batch 1
  /// Structural nodes that cost time, by operator: {"pool2d": 5}.
  std::map<std::string, int> uncosted() const;
};

/// Reads a network TOML; errors name file and line (UsageError).
Network load_network(const std::filesystem::path& file);
/// NAME of a shipped network or a file. Throws UsageError that lists the known ones.
Network find_network(std::string_view name_or_file);
std::vector<std::string> shipped_networks();

}  // namespace forecost
