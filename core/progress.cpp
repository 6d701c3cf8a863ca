#include "core/progress.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "core/units.hpp"

namespace forecost {

namespace {
constexpr auto terminal_interval = std::chrono::milliseconds(100);
constexpr auto line_interval = std::chrono::seconds(5);
constexpr int bar_width = 24;
}  // namespace

Progress::Progress(std::string label, std::string unit, std::uint64_t total, bool silent)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      silent_(silent),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_print_(start_) {}

Progress::~Progress() { finish(); }

void Progress::update(std::uint64_t done, const std::string& note) {
  // Work that was already there before the first update (a resume) must not count into the rate.
  if (!started_) first_done_ = done;
  started_ = true;
  done_ = done;
  note_ = note;
  const auto interval = terminal_ ? Clock::duration(terminal_interval) : line_interval;
  if (Clock::now() - last_print_ >= interval) print(false);
}

void Progress::finish() {
  if (finished_ || !started_) return;
  finished_ = true;
  // Where nothing was left to do, or no time to do it, there is no rate to tell.
  if (done_ != first_done_ || printed_) print(true);
}

void Progress::print(bool last) {
  last_print_ = Clock::now();
  printed_ = true;
  if (silent_) return;
  const double elapsed = std::chrono::duration<double>(last_print_ - start_).count();
  const double rate = elapsed > 0 ? static_cast<double>(done_ - first_done_) / elapsed : 0;
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0;
  std::string text = fmt::format("{} {}/{} {}", label_, done_, total_, unit_);
  if (terminal_) {
    const int full = static_cast<int>(std::min(share, 1.0) * bar_width);
    text = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} % {}/{} {}", label_, "", full, "",
                       bar_width - full, share * 100, done_, total_, unit_);
  }
  if (rate > 0)
    text += fmt::format(", {}/s",
                        rate < 1000 ? fmt::format("{:.3g}", rate) : format_count(std::round(rate)));
  if (last) {
    text += fmt::format(", took {}", format_seconds(elapsed));
  } else if (rate > 0 && total_ > done_) {
    text += fmt::format(", ETA {}", format_seconds(static_cast<double>(total_ - done_) / rate));
  }
  if (!note_.empty()) text += ", " + note_;
  if (terminal_) {
    std::fputs(fmt::format("\r\x1b[K{}{}", text, last ? "\n" : "").c_str(), stderr);
  } else {
    std::fputs((text + "\n").c_str(), stderr);
  }
  std::fflush(stderr);
}

}  // namespace forecost
