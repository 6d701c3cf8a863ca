#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace forecost {

/// The processes of this run. Without MPI (or started without mpirun/srun) it is one rank. Holds
/// MPI_Init..MPI_Finalize; passed on, never global.
class World {
 public:
  /// Throws EnvironmentError if SLURM_NTASKS of a Slurm step differs from the size of the world
  /// (N single-rank worlds would each do everything).
  World(int& argc, char**& argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  ///< among the ranks of this host
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  /// When this process began: a World is the first thing that the program makes.
  std::chrono::steady_clock::time_point began() const { return began_; }

  // The collective calls below sleep while they wait, so that a rank that has finished early does
  // not disturb measurements beside it.
  void barrier() const;
  /// Each rank's text, by rank; on every rank.
  std::vector<std::string> all_gather(std::string_view text) const;
  /// Rank `root`'s text, on every rank.
  std::string broadcast(std::string_view text, int root = 0) const;
  /// The largest value of all ranks, on every rank.
  int all_max(int value) const;
  /// Ends all ranks at once with `code`. Does not return.
  [[noreturn]] void abort(int code) const;

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  bool owns_mpi_ = false;  ///< MPI_Init was called here
  std::string host_;
};

}  // namespace forecost
