#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/measurement.hpp"

// Two corpora compared task by task: which tasks got faster or slower, beyond noise or not.

namespace forecost {

struct DiffOptions {
  /// Ratios within 1 + tolerance are never a difference: what two devices of a class may differ by.
  double tolerance = 0.02;
  bool any_class = false;  ///< the device class is no part of the key: hardware against hardware
};

/// What B is, compared with A.
enum class Verdict : std::uint8_t { same, faster, slower };
template <>
struct EnumNames<Verdict> {
  static constexpr std::string_view kind = "verdict";
  static constexpr std::array<std::string_view, 3> names{"same", "faster", "slower"};
};

/// A key that both sides have ok rows of.
struct DiffRow {
  std::string key;
  double a_s, b_s;  ///< medians; of several rows of a key, the median of their medians
  std::size_t a_rows, b_rows;
  double ratio;  ///< b_s / a_s
  /// Half the width of the 95 % interval of log(ratio), from the spread of both sides; NaN where
  /// the spread of one is unknown: the verdict then follows from the tolerance alone.
  double noise;
  Verdict verdict;
};

/// A key that is ok on one side only, while all rows of the other failed.
struct StatusChange {
  std::string key, a, b;  ///< statuses
  std::string reason;     ///< of the side that failed
};

/// All keys of one operator, pass and device class.
struct DiffGroup {
  std::string op, pass, device_class;
  std::size_t n =
      0;  ///< keys with ok rows in both; all ratios are over these, NaN if there are none
  std::size_t only_in_a = 0, only_in_b = 0, status_changes = 0, failed_in_both = 0;
  double geomean_ratio = 0, p5_ratio = 0, median_ratio = 0, p95_ratio = 0;
  std::size_t same = 0, faster = 0, slower = 0;
  std::size_t unknown_spread = 0;  ///< of the n, judged by the tolerance alone
};

struct CorpusDiff {
  DiffGroup all;  ///< over all groups
  std::vector<DiffGroup> groups;
  std::vector<DiffRow> rows;          ///< differences beyond noise first, then by |log(ratio)|
  std::vector<StatusChange> changes;  ///< by key
};

/// Takes the rows of both corpora, one by one, then compares.
///
/// Key: task, device class, protocol. Device, environment, run and replicate are no part of it: two
/// runs differ in them, so the rows of a key are pooled by the median of their medians.
///
/// Noise: the standard error of a row's median is 1.25 IQR / (1.35 sqrt(n)) (McGill, Tukey, Larsen,
/// "Variations of box plots", The American Statistician 32, 1978; their notch is 1.7 of these), or
/// 1.253 stdev / sqrt(n), the same for a normal distribution, where quartiles are unknown. For k
/// pooled rows it is the larger of what the rows' own errors and what their distance from each
/// other give. The interval is 1.96 times the errors of both sides in quadrature.
class CorpusComparison {
 public:
  enum Side : std::uint8_t { a, b };

  explicit CorpusComparison(DiffOptions options) : options_(options) {}
  /// What it looks at of a row, by the names of CorpusReader.
  static std::vector<std::string> columns();
  void add(Side side, const Measurement& row);
  /// Throws UsageError if the class is left out and a side has several.
  CorpusDiff finish() const;
  const std::set<std::string>& classes(Side side) const { return classes_[side]; }

 private:
  struct Rows {
    std::vector<double> medians_s;
    double squared_errors = 0;  ///< of log(median), of the rows whose spread is known
    std::size_t known_spreads = 0;
    std::string status, reason;  ///< of the last row that has no time
    double median_s() const;
    double error() const;
  };
  struct Key {
    std::size_t group = 0;
    std::array<Rows, 2> sides;
  };

  DiffOptions options_;
  std::map<std::string, Key> keys_;
  std::map<std::array<std::string, 3>, std::size_t> groups_;
  std::array<std::set<std::string>, 2> classes_;
};

/// One JSON object: a, b (the names given), tolerance, keys_in_both, only_in_a, only_in_b,
/// groups [{op, pass, class, n, ...}], status_changes, and the first `most` rows.
std::string diff_json(const CorpusDiff& diff, const DiffOptions& options, const std::string& a,
                      const std::string& b, std::size_t most);
/// Tables for people: the groups, up to `most` changes of status and differences beyond noise.
std::string diff_text(const CorpusDiff& diff, const DiffOptions& options, std::size_t most);

}  // namespace forecost
