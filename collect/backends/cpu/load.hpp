#pragma once

#include <chrono>
#include <vector>

namespace forecost::cpu {

/// Tells what other programs take from the team's threads, by what the kernel books: how long each
/// thread stood in the queue of its core, and what a hypervisor took from that core (steal).
class Load {
 public:
  /// `cores` are those of the threads, in their order.
  explicit Load(std::vector<int> cores) : cores_(std::move(cores)) {}

  void begin() { before_ = read(); }
  /// Of the time since begin(), the share that the most disturbed thread lost: a team waits for its
  /// slowest member. NaN where the kernel does not tell.
  double lost_share() const;

 private:
  struct Books {
    std::chrono::steady_clock::time_point time;
    std::vector<double> waited_s, stolen_s;  ///< of each thread, since it or the system started
  };
  Books read() const;

  std::vector<int> cores_;
  Books before_;
};

/// As the kernel tells now; NaN where it does not (virtual machines mostly).
double current_clock_hz(int core);

}  // namespace forecost::cpu
