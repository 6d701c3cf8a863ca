#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/measurement.hpp"

namespace forecost {

/// How much two measurements of one task differ.
struct Repeatability {
  std::int64_t tasks = 0;  ///< that were measured more than once
  /// Median over the tasks of |median of a repeat / median of replicate 0 - 1|; of several repeats
  /// of a task their median counts. NaN without tasks.
  double median_difference = TimingSummary::nan;
};

/// One task that a device measured again and again in one launch (MEASURING.md rule 16).
struct Drift {
  std::string run_id, device_id, device_class, task;
  std::vector<std::pair<double, double>> points;  ///< started_unix_s and median_s, in that order
  /// The slowest over the fastest, less 1.
  double spread() const;
  /// "TASK on CLASS DEVICE: 12 times in 35 min, from 1.02 ms to 1.10 ms (7.8 %), the slowest after
  /// 20 min".
  std::string text() const;
};

struct Repeats {
  /// Of deliberate repeats (replicate 1..), on one device and between devices of a class.
  Repeatability all, longer, between_devices;
  static constexpr double longer_s = 100e-6;  ///< `longer` are the tasks above this
  std::vector<Drift> drifts;                  ///< of references (first_reference_replicate..)
  /// Lines for people; empty if nothing was repeated.
  std::string text() const;
};

/// From the ok rows among `rows`, which may be of any launches and devices.
Repeats find_repeats(std::span<const Measurement> rows);

}  // namespace forecost
