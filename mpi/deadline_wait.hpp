#pragma once

#include <chrono>

#include "mpi/polite_wait.hpp"

namespace forecost {

/// Pauses between the polls of a rank that trains: none for the first moments, since the others are
/// usually microseconds behind, then the naps of PoliteWait.
class DeadlineWait {
 public:
  explicit DeadlineWait(double timeout_s) : timeout_s_(timeout_s) {}
  /// True when the timeout is over.
  bool pause() {
    constexpr double spin_s = 2e-3;
    const double waited_s = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (waited_s > spin_s) politely_.pause();
    return waited_s > timeout_s_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const double timeout_s_;
  const Clock::time_point begin_ = Clock::now();
  PoliteWait politely_;
};

}  // namespace forecost
