#include "collect/backends/cpu/load.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "collect/backends/cpu/cores.hpp"

namespace forecost::cpu {
namespace {

using namespace std::chrono_literals;

void busy(std::chrono::milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// Wants all of a core as long as it lives.
class Competitor {
 public:
  explicit Competitor(int core)
      : thread_([this, core] {
          cpu_set_t set;
          CPU_ZERO(&set);
          CPU_SET(core, &set);
          sched_setaffinity(0, sizeof set, &set);
          running_ = true;
          while (running_) {
          }
        }) {
    while (!running_) std::this_thread::yield();
  }
  ~Competitor() {
    running_ = false;
    thread_.join();
  }

 private:
  std::atomic<bool> running_ = false;
  std::thread thread_;
};

TEST(Load, WaitingForACoreIsSeen) {
  const std::vector<int> cores{read_topology().cores.allowed.front()};
  const PinnedTeam team(cores);
  Load load(cores);
  load.begin();
  if (std::isnan(load.lost_share())) GTEST_FAIL() << "this kernel has no schedstat";
  {
    const Competitor competitor(cores.front());
    load.begin();
    busy(300ms);
    EXPECT_GT(load.lost_share(), 0.2);  // half of it, with nobody else
  }
  // Whatever else runs here: who does not want to run does not wait.
  load.begin();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(load.lost_share(), 0.1);
}

TEST(Load, TheMostDisturbedThreadCounts) {
  auto cores = read_topology().cores.allowed;
  while (cores.size() > 2) cores.pop_back();
  const PinnedTeam team(cores);
  Load load(cores);
  const Competitor competitor(cores.back());
  load.begin();
#pragma omp parallel num_threads(static_cast <int>(cores.size()))
  busy(300ms);
  EXPECT_GT(load.lost_share(), 0.2);
}

}  // namespace
}  // namespace forecost::cpu
