#include "data/corpus/diff.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/statistics.hpp"
#include "core/table.hpp"
#include "core/units.hpp"

namespace forecost {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
/// The standard error of a normal sample's median, over that of its mean: sqrt(pi / 2).
constexpr double median_over_mean = 1.2533;
/// The interquartile range of a normal distribution, in standard deviations.
constexpr double iqr_over_stdev = 1.35;
/// Standard errors to each side of a normal estimate's 95 % interval.
constexpr double z_95 = 1.96;

/// Standard error of log(median); NaN if the spread is unknown, as it is of a single sample.
double median_error(const TimingSummary& time) {
  if (time.n < 2) return nan;
  const double iqr_s = time.q3_s - time.q1_s;
  const double stdev_s = iqr_s >= 0 ? iqr_s / iqr_over_stdev : time.stdev_s;
  return median_over_mean * stdev_s / std::sqrt(static_cast<double>(time.n)) / time.median_s;
}

Verdict verdict_of(const DiffRow& row, double tolerance) {
  const double change = std::log(row.ratio), floor = std::log1p(tolerance);
  const double limit = std::isnan(row.noise) ? floor : std::max(row.noise, floor);
  if (std::fabs(change) <= limit) return Verdict::same;
  return change < 0 ? Verdict::faster : Verdict::slower;
}

/// What a group says of its ratios; sorts them.
void summarise(DiffGroup& group, std::vector<double>& ratios) {
  std::sort(ratios.begin(), ratios.end());
  const bool none = ratios.empty();
  double logs = 0;
  for (const double ratio : ratios) logs += std::log(ratio);
  group.geomean_ratio = none ? nan : std::exp(logs / static_cast<double>(ratios.size()));
  group.p5_ratio = none ? nan : quantile(ratios, 0.05);
  group.median_ratio = none ? nan : quantile(ratios, 0.5);
  group.p95_ratio = none ? nan : quantile(ratios, 0.95);
}

void count(DiffGroup& group, const DiffRow& row) {
  ++group.n;
  group.same += row.verdict == Verdict::same ? 1 : 0;
  group.faster += row.verdict == Verdict::faster ? 1 : 0;
  group.slower += row.verdict == Verdict::slower ? 1 : 0;
  group.unknown_spread += std::isnan(row.noise) ? 1 : 0;
}

}  // namespace

double CorpusComparison::Rows::median_s() const { return median(medians_s); }

double CorpusComparison::Rows::error() const {
  const auto k = static_cast<double>(medians_s.size());
  const double within =
      known_spreads > 0 ? std::sqrt(squared_errors / static_cast<double>(known_spreads) / k) : nan;
  if (medians_s.size() < 2) return within;
  std::vector<double> logs;
  for (const double value : medians_s) logs.push_back(std::log(value));
  const double between = median_over_mean * summarize(logs).stdev_s / std::sqrt(k);
  return std::fmax(within, between);  // a NaN gives way to the other
}

std::vector<std::string> CorpusComparison::columns() {
  return {"layer",        "pass",     "dtype",  "optimizer", "cache_state",  "algorithm_policy",
          "device_class", "protocol", "status", "reason",    "sample_count", "q1_s",
          "median_s",     "q3_s",     "stdev_s"};
}

void CorpusComparison::add(Side side, const Measurement& row) {
  classes_[side].insert(row.device_class);
  std::string key = options_.any_class ? task_text(row.task) : task_key(row.task, row.device_class);
  key.append(" ").append(name_of(row.protocol));
  const auto [found, is_new] = keys_.try_emplace(std::move(key));
  if (is_new) {
    const std::array<std::string, 3> group{std::string(row.task.layer.op().name),
                                           std::string(name_of(row.task.pass)),
                                           options_.any_class ? "" : row.device_class};
    found->second.group = groups_.try_emplace(group, groups_.size()).first->second;
  }
  Rows& rows = found->second.sides[side];
  const bool has_median = std::isfinite(row.time.median_s) && row.time.median_s > 0;
  if (row.status != Status::ok || !has_median) {
    rows.status = name_of(row.status);
    rows.reason = row.status == Status::ok ? "its median is no positive finite time" : row.reason;
    return;
  }
  rows.medians_s.push_back(row.time.median_s);
  if (const double error = median_error(row.time); !std::isnan(error)) {
    rows.squared_errors += error * error;
    ++rows.known_spreads;
  }
}

CorpusDiff CorpusComparison::finish() const {
  std::string any_class;
  if (options_.any_class) {
    for (const Side side : {a, b}) {
      if (classes_[side].size() > 1) {
        throw UsageError(
            fmt::format("--any-class: {} holds the device classes {}, expected one of each side",
                        side == a ? "A" : "B", fmt::join(classes_[side], ", ")));
      }
    }
    any_class = fmt::format("{} -> {}", fmt::join(classes_[a], ""), fmt::join(classes_[b], ""));
  }

  CorpusDiff diff;
  diff.groups.resize(groups_.size());
  std::vector<std::vector<double>> ratios(groups_.size());
  std::vector<double> all_ratios;
  for (const auto& [name, index] : groups_) {
    diff.groups[index].op = name[0];
    diff.groups[index].pass = name[1];
    diff.groups[index].device_class = options_.any_class ? any_class : name[2];
  }
  for (const auto& [text, key] : keys_) {
    const auto& [in_a, in_b] = key.sides;
    const auto add_to = [&](auto change) {
      change(diff.groups[key.group]);
      change(diff.all);
    };
    const auto absent = [](const Rows& rows) {
      return rows.medians_s.empty() && rows.status.empty();
    };
    if (absent(in_a)) {
      add_to([](DiffGroup& group) { ++group.only_in_b; });
    } else if (absent(in_b)) {
      add_to([](DiffGroup& group) { ++group.only_in_a; });
    } else if (in_a.medians_s.empty() && in_b.medians_s.empty()) {
      add_to([](DiffGroup& group) { ++group.failed_in_both; });
    } else if (in_a.medians_s.empty()) {
      diff.changes.push_back({text, in_a.status, "ok", in_a.reason});
      add_to([](DiffGroup& group) { ++group.status_changes; });
    } else if (in_b.medians_s.empty()) {
      diff.changes.push_back({text, "ok", in_b.status, in_b.reason});
      add_to([](DiffGroup& group) { ++group.status_changes; });
    } else {
      DiffRow row{text, in_a.median_s(), in_b.median_s(), in_a.medians_s.size(),
                  in_b.medians_s.size()};
      row.ratio = row.b_s / row.a_s;
      row.noise = z_95 * std::hypot(in_a.error(), in_b.error());
      row.verdict = verdict_of(row, options_.tolerance);
      add_to([&](DiffGroup& group) { count(group, row); });
      ratios[key.group].push_back(row.ratio);
      all_ratios.push_back(row.ratio);
      diff.rows.push_back(std::move(row));
    }
  }
  for (std::size_t i = 0; i < ratios.size(); ++i) summarise(diff.groups[i], ratios[i]);
  summarise(diff.all, all_ratios);
  const auto name = [](const DiffGroup& g) { return std::tie(g.op, g.pass, g.device_class); };
  std::sort(diff.groups.begin(), diff.groups.end(),
            [&](const DiffGroup& x, const DiffGroup& y) { return name(x) < name(y); });
  // Stable: equal ones stay in the order of their keys.
  std::stable_sort(diff.rows.begin(), diff.rows.end(), [](const DiffRow& x, const DiffRow& y) {
    const auto rank = [](const DiffRow& row) {
      return std::pair(row.verdict == Verdict::same ? 0 : 1, std::fabs(std::log(row.ratio)));
    };
    return rank(x) > rank(y);
  });
  return diff;
}

std::string diff_json(const CorpusDiff& diff, const DiffOptions& options, const std::string& a,
                      const std::string& b, std::size_t most) {
  using Json = nlohmann::ordered_json;  // NaN is written as null
  Json groups = Json::array(), changes = Json::array();
  for (const DiffGroup& g : diff.groups) {
    groups.push_back({{"op", g.op},
                      {"pass", g.pass},
                      {"class", g.device_class},
                      {"n", g.n},
                      {"only_in_a", g.only_in_a},
                      {"only_in_b", g.only_in_b},
                      {"status_changes", g.status_changes},
                      {"failed_in_both", g.failed_in_both},
                      {"geomean_ratio", g.geomean_ratio},
                      {"p5_ratio", g.p5_ratio},
                      {"median_ratio", g.median_ratio},
                      {"p95_ratio", g.p95_ratio},
                      {"same", g.same},
                      {"faster", g.faster},
                      {"slower", g.slower},
                      {"unknown_spread", g.unknown_spread}});
  }
  for (const StatusChange& c : diff.changes) {
    changes.push_back({{"key", c.key}, {"a", c.a}, {"b", c.b}, {"reason", c.reason}});
  }
  const Json head{{"a", a},
                  {"b", b},
                  {"tolerance", options.tolerance},
                  {"keys_in_both", diff.all.n},
                  {"only_in_a", diff.all.only_in_a},
                  {"only_in_b", diff.all.only_in_b},
                  {"failed_in_both", diff.all.failed_in_both},
                  {"groups", groups},
                  {"status_changes", changes}};
  std::string text = head.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  // There may be millions of rows: a line each, and no second copy of them as objects.
  text.replace(text.rfind('\n'), std::string::npos, ",\n  \"rows\": [");
  for (std::size_t i = 0; i < std::min(most, diff.rows.size()); ++i) {
    const DiffRow& row = diff.rows[i];
    text += i > 0 ? ",\n    " : "\n    ";
    text += Json{{"key", row.key},       {"a_s", row.a_s},
                 {"b_s", row.b_s},       {"a_rows", row.a_rows},
                 {"b_rows", row.b_rows}, {"ratio", row.ratio},
                 {"noise", row.noise},   {"verdict", name_of(row.verdict)}}
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return text + "\n  ]\n}";
}

std::string diff_text(const CorpusDiff& diff, const DiffOptions& options, std::size_t most) {
  const auto number = [](std::size_t value) { return format_count(static_cast<double>(value)); };
  const auto counted = [](std::size_t value, const char* singular) {
    return format_counted(static_cast<double>(value), singular);
  };
  const auto ratio = [](double value) {
    return std::isnan(value) ? "-" : fmt::format("{:.3f}", value);
  };
  const DiffGroup& all = diff.all;
  TextTable groups({"operator", "pass", "class", ">in both", ">only A", ">only B", ">B / A", ">5 %",
                    ">median", ">95 %", ">same", ">faster", ">slower", ">spread unknown"});
  const auto add = [&](const DiffGroup& g) {
    groups.add({g.op, g.pass, g.device_class, number(g.n), number(g.only_in_a), number(g.only_in_b),
                ratio(g.geomean_ratio), ratio(g.p5_ratio), ratio(g.median_ratio),
                ratio(g.p95_ratio),
                format_percent(static_cast<double>(g.same) / static_cast<double>(g.n)),
                number(g.faster), number(g.slower), number(g.unknown_spread)});
  };
  for (const DiffGroup& group : diff.groups) add(group);
  if (diff.groups.size() > 1) {
    groups.rule();
    DiffGroup total = all;
    total.op = "all";
    add(total);
  }
  std::string text = groups.str();
  text += fmt::format(
      "\nB / A: geometric mean, 5th, 50th and 95th percentile of the ratios of medians. same: "
      "within "
      "noise or {}.\n",
      format_percent(options.tolerance));
  if (all.failed_in_both > 0) {
    text += fmt::format("{} ok in neither.\n", counted(all.failed_in_both, "key"));
  }

  if (!diff.changes.empty()) {
    text += fmt::format("\n{} ok on one side only:\n\n", counted(diff.changes.size(), "key"));
    TextTable changes({"A", "B", "task @ class protocol", "reason"});
    for (std::size_t i = 0; i < std::min(most, diff.changes.size()); ++i) {
      const StatusChange& c = diff.changes[i];
      changes.add({c.a, c.b, c.key, c.reason});
    }
    text += changes.str();
    if (diff.changes.size() > most) {
      text += fmt::format("and {} more\n", number(diff.changes.size() - most));
    }
  }

  const std::size_t beyond = all.faster + all.slower, listed = std::min(most, beyond);
  if (listed == 0) return text;
  text += fmt::format("\nThe largest of {} beyond noise:\n\n", counted(beyond, "difference"));
  TextTable rows({">A", ">B", ">B / A", ">noise", "verdict", ">rows", "task @ class protocol"});
  for (std::size_t i = 0; i < listed; ++i) {
    const DiffRow& row = diff.rows[i];
    rows.add({format_seconds(row.a_s), format_seconds(row.b_s), ratio(row.ratio),
              std::isnan(row.noise) ? "unknown"
                                    : fmt::format("+- {}", format_percent(std::expm1(row.noise))),
              std::string(name_of(row.verdict)), fmt::format("{}, {}", row.a_rows, row.b_rows),
              row.key});
  }
  return text + rows.str();
}

}  // namespace forecost
