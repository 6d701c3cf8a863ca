#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mpi/world.hpp"

namespace forecost {

/// What the ranks of a world tell each other while each goes on with its own work: progress, and
/// the wish to stop. Nobody waits; all hear the same news in the same order, though not at the same
/// moment.
class Pulse {
 public:
  /// Called by all ranks. `values`: how many each tells.
  Pulse(const World& world, std::size_t values, double timeout_s);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// Called by every rank now and then, more often than the timeout. Where nothing is under way, it
  /// tells `own` to the others. Once all ranks have told theirs, returns them, rank after rank;
  /// after the same news on all ranks a rank may decide never to call again. Throws RankLost if
  /// some rank has told nothing for the timeout.
  std::optional<std::vector<double>> beat(std::span<const double> own);

 private:
  struct Exchange;
  std::unique_ptr<Exchange> exchange_;  ///< none in a world of one rank
};

}  // namespace forecost
