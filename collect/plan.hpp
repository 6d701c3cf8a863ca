#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collect/sampling.hpp"
#include "collect/sweep.hpp"
#include "data/networks/network.hpp"
#include "data/toml_layer.hpp"

// What a sweep file says, and its expansion into tasks (sweep.cpp is the public face).

namespace forecost {

/// Caps that leave a task out.
struct SweepCaps {
  double max_memory_bytes = std::numeric_limits<double>::infinity();
  double max_flops = std::numeric_limits<double>::infinity();
};

/// [[conv2d]], [[dense]], ...: a space that layers are drawn from. Of each list one value is drawn
/// per layer; every drawn layer gets all passes, but `forward_only_share` of them forward alone.
struct SweepBlock {
  const Operator* op;
  std::int64_t line;
  std::int64_t samples;
  std::vector<ParameterSpace> spaces;  ///< in an order in which bounds know what they need
  std::vector<Padding> paddings;       ///< empty: the pads are parameters like others
  std::vector<Pass> passes;
  std::vector<DType> dtypes;
  std::vector<Optimizer> optimizers;
  std::vector<CacheState> caches;
  double forward_only_share = 0;
  std::vector<bool> given;  ///< the parameters that `spaces` set
  /// More than heuristic matter to tasks that have algorithms only.
  std::vector<AlgorithmPolicy> policies = {};
};

/// [[anchor]]: the layers of a network, in every combination of the lists.
struct SweepAnchor {
  Network network;
  std::vector<std::int64_t> batches;
  std::vector<Pass> passes;
  std::vector<DType> dtypes;
  std::vector<Optimizer> optimizers;
  std::vector<CacheState> caches;
  /// More than heuristic matter to tasks that have algorithms only.
  std::vector<AlgorithmPolicy> policies = {};
};

struct Sweep {
  std::string name;
  std::uint64_t seed = 0;
  SweepCaps caps;
  MeasureRules rules;
  std::vector<SweepAnchor> anchors;
  std::vector<SweepBlock> blocks;
};

/// Throws UsageError with file and line.
Sweep parse_sweep(const TomlValue& root);
/// Fills tasks and skipped of the plan, and shuffles the tasks.
void expand(const Sweep& sweep, Plan& plan);

}  // namespace forecost
