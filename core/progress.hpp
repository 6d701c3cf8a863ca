#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace forecost {

/// Progress on stderr: a bar with rate and ETA on a terminal, a line every few seconds elsewhere.
class Progress {
 public:
  /// `unit` is the plural of what is counted ("tasks", "epochs"); a silent one prints nothing.
  Progress(std::string label, std::string unit, std::uint64_t total, bool silent = false);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `note` follows the figures ("3 skipped"). Cheap: prints at most ten times a second.
  void update(std::uint64_t done, const std::string& note = {});
  /// Prints the final state once, if anything was done since the first update.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void print(bool last);

  std::string label_, unit_, note_;
  std::uint64_t total_, done_ = 0, first_done_ = 0;
  bool silent_, terminal_, finished_ = false, started_ = false, printed_ = false;
  Clock::time_point start_, last_print_;
};

}  // namespace forecost
