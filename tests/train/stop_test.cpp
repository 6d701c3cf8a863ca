#include <gtest/gtest.h>

#include <csignal>
#include <ctime>

#include "core/stop.hpp"
#include "train/gemm.hpp"
#include "train/model/aligned.hpp"

namespace forecost {
namespace {

// A signal during a matrix product must not touch memory: oneDNN's kernels use the stack pointer
// for operands, where a handler without a stack of its own wrote into the heap (6 of 22 trainings
// that were stopped aborted).
TEST(Stop, SignalsDoNotDisturbMatrixProducts) {
  install_stop_handlers();
  struct sigaction action {};
  sigaction(SIGUSR1, nullptr, &action);
  EXPECT_NE(action.sa_flags & SA_ONSTACK, 0);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  timer_t timer{};
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  const itimerspec every{{0, 100'000}, {0, 100'000}};
  ASSERT_EQ(timer_settime(timer, 0, &every, nullptr), 0);
  for (int round = 0; round < 100; ++round) {
    for (const std::int64_t m : {64, 128, 300}) {
      for (const std::int64_t n : {1, 40, 64, 256}) {
        constexpr std::int64_t k = 64;
        const Floats a(static_cast<std::size_t>(m * k), 1), b(static_cast<std::size_t>(k * n), 1);
        Floats c(static_cast<std::size_t>(m * n), 0);
        best_gemm().multiply(m, n, k, {a.data(), k, false}, {b.data(), n, false}, 0, c.data(), n);
        for (const float value : c) ASSERT_EQ(value, k);
        for (const float value : a) ASSERT_EQ(value, 1);
        for (const float value : b) ASSERT_EQ(value, 1);
      }
    }
  }
  timer_delete(timer);
  EXPECT_EQ(stop_signal(), SIGUSR1);
  clear_stop();
}

}  // namespace
}  // namespace forecost
