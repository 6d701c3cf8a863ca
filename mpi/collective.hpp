#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// Another rank has not answered for so long that it must be dead. Whoever catches this has lost
/// the run: what was to be summed is undefined, and only an abort of the world ends all ranks.
class RankLost : public Error {
 public:
  /// "sum of 5 elements: no answer for 300 s from some of 4 ranks ..."
  RankLost(const std::string& operation, int ranks, double waited_s);
  /// What another library has told of it.
  explicit RankLost(const std::string& message) : Error(ExitCode::internal, message) {}
};

/// Sums over the ranks that train together. Every rank calls the same operations with the same
/// counts in the same order. Implementations: local (one rank), mpi; nccl in the CUDA module.
///
/// Every operation throws RankLost if the others have not joined it within the timeout. The
/// collective is of no use after that, and `values` must live as long as the process makes MPI
/// calls: a rank that was late only may still send its share into it.
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

/// As long as a file system may hold up a healthy rank.
inline constexpr double default_collective_timeout_s = 300;

/// Of one rank: sums are what they are.
std::unique_ptr<Collective> make_local_collective();
/// The one that fits the world: local for one rank, else mpi.
std::unique_ptr<Collective> make_collective(const World& world,
                                            double timeout_s = default_collective_timeout_s);
/// Of these ranks of the world, which are numbered in this order; called by them and by no other
/// rank, at the same time.
std::unique_ptr<Collective> make_collective(const World& world, const std::vector<int>& ranks,
                                            double timeout_s = default_collective_timeout_s);
/// Makes the collective of a group of ranks, as the function above does.
using CollectiveFactory = std::function<std::unique_ptr<Collective>(
    const World& world, const std::vector<int>& ranks, double timeout_s)>;

}  // namespace forecost
