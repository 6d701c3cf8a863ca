#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace forecost::cuda {

/// Waits by asking again and again: at once in the beginning, which is when most answers come, then
/// with short sleeps.
class Waiting {
 public:
  /// Until the next question; how long has been waited, in seconds.
  double pause() {
    using Clock = std::chrono::steady_clock;
    const double waited_s = std::chrono::duration<double>(Clock::now() - began_).count();
    constexpr double awake_s = 200e-6;
    if (waited_s > awake_s) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return waited_s;
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

/// "30 s", "0.5 s".
inline std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds);
  return text;
}

}  // namespace forecost::cuda
