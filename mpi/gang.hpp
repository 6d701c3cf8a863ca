#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/world.hpp"

namespace forecost {

/// Some ranks of the world that act at the same moment, each with a device of its own: what a
/// collective is timed on. Waiting spins, unlike everything else between ranks: members that sleep
/// would not start together.
///
/// Every member calls the same operations in the same order.
class Gang {
 public:
  virtual ~Gang() = default;
  virtual int rank() const = 0;  ///< within the gang; 0 is the first of the ranks it was made of
  virtual int size() const = 0;
  virtual void barrier() = 0;
  /// Rank 0's value, on every member.
  virtual std::int64_t broadcast(std::int64_t value) = 0;
  virtual double max(double value) = 0;
  /// to[i] = the sum of all members' from[i]; both of the same length on every member.
  virtual void all_reduce(std::span<const float> from, std::span<float> to) = 0;

  /// What a backend keeps for as long as the gang lives: its devices' own way to each other.
  std::shared_ptr<void> kept;
};

/// Of these ranks of the world, at least two; called by them and by no other rank, at the same
/// time. A build without MPI has none: std::logic_error.
std::unique_ptr<Gang> make_gang(const World& world, const std::vector<int>& ranks);

}  // namespace forecost
