#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "mpi/world.hpp"

namespace forecost {

/// Sums over the ranks that train together. Every rank calls the same operations with the same
/// counts in the same order. Implementations: local (one rank), mpi; nccl in the CUDA module.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// In place, element by element. A count that differs between ranks throws on all ranks.
  virtual void sum(std::span<float> values) = 0;
  virtual void sum(std::span<double> values) = 0;
  /// Exact and therefore independent of the order of summation; the caller keeps sums in range.
  virtual void sum(std::span<std::int64_t> values) = 0;
  virtual void max(std::span<double> values) = 0;
  virtual void broadcast(std::span<float> values, int root) = 0;
};

/// Of one rank: sums are what they are.
std::unique_ptr<Collective> make_local_collective();
/// The one that fits the world: local for one rank, else mpi.
std::unique_ptr<Collective> make_collective(const World& world);

}  // namespace forecost
