#include "data/corpus/repeats.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "core/statistics.hpp"
#include "core/units.hpp"

namespace forecost {

namespace {

struct Repeated {
  const Measurement* first = nullptr;  ///< replicate 0
  std::vector<const Measurement*> repeats, references;
};

Repeatability repeatability(std::vector<double> differences) {
  const auto tasks = static_cast<std::int64_t>(differences.size());
  return {tasks, median(std::move(differences))};
}

}  // namespace

double Drift::spread() const {
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  return high->second / low->second - 1;
}

std::string Drift::text() const {
  const auto [low, high] =
      std::minmax_element(points.begin(), points.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  const double begin_s = points.front().first;
  return fmt::format("{} on {} {}: {} times in {}, from {} to {} ({}), the slowest after {}", task,
                     device_class, device_id, points.size(),
                     format_seconds(points.back().first - begin_s), format_seconds(low->second),
                     format_seconds(high->second), format_percent(spread()),
                     format_seconds(high->first - begin_s));
}

std::string Repeats::text() const {
  std::string lines;
  const auto told = [](const Repeatability& r, const char* which) {
    return r.tasks == 0
               ? ""
               : fmt::format("{} of {} measured again{}", format_percent(r.median_difference),
                             format_counted(r.tasks, "task"), which);
  };
  if (all.tasks > 0) {
    lines += fmt::format(
        "repeatability (median absolute difference of the medians): {}{}\n", told(all, ""),
        longer.tasks == 0 ? "" : ", " + told(longer, " that take more than 100 us"));
  }
  if (between_devices.tasks > 0) {
    lines += fmt::format("between devices of a class: {}\n",
                         told(between_devices, " on another device"));
  }
  for (const Drift& drift : drifts) lines += fmt::format("drift: {}\n", drift.text());
  return lines;
}

Repeats find_repeats(std::span<const Measurement> rows) {
  // Most corpora have few repeats: their tasks first, then what belongs to these.
  std::unordered_map<std::string, Repeated> tasks;
  const auto key_of = [](const Measurement& row) { return task_key(row.task, row.device_class); };
  for (const Measurement& row : rows) {
    if (row.status != Status::ok || row.replicate == 0) continue;
    Repeated& repeated = tasks[key_of(row)];
    (row.replicate < first_reference_replicate ? repeated.repeats : repeated.references)
        .push_back(&row);
  }
  if (tasks.empty()) return {};
  std::map<std::string, std::vector<const Measurement*>> curves;  // by run, device and task
  const auto curve_of = [&](const std::string& key, const Measurement& row) {
    return row.run_id + ' ' + row.device_id + ' ' + key;
  };
  for (const auto& [key, repeated] : tasks) {
    for (const Measurement* row : repeated.references) curves[curve_of(key, *row)].push_back(row);
  }
  for (const Measurement& row : rows) {
    if (row.status != Status::ok || row.replicate >= first_reference_replicate) continue;
    const std::string key = key_of(row);
    const auto found = tasks.find(key);
    if (found == tasks.end()) continue;
    if (row.replicate == 0) found->second.first = &row;
    // What a launch measured as planned is a point of its curve too.
    if (const auto curve = curves.find(curve_of(key, row)); curve != curves.end()) {
      curve->second.push_back(&row);
    }
  }

  std::vector<double> all, longer, between;
  for (const auto& [key, repeated] : tasks) {
    if (repeated.first == nullptr) continue;
    const Measurement& first = *repeated.first;
    std::vector<double> here, elsewhere;
    for (const Measurement* again : repeated.repeats) {
      (again->device_id == first.device_id ? here : elsewhere)
          .push_back(std::fabs(again->time.median_s / first.time.median_s - 1));
    }
    if (!here.empty()) {
      all.push_back(median(here));
      if (first.time.median_s > Repeats::longer_s) longer.push_back(all.back());
    }
    if (!elsewhere.empty()) between.push_back(median(elsewhere));
  }
  Repeats repeats{.all = repeatability(std::move(all)),
                  .longer = repeatability(std::move(longer)),
                  .between_devices = repeatability(std::move(between))};
  for (auto& [key, points] : curves) {
    if (points.size() < 2) continue;
    std::sort(points.begin(), points.end(), [](const Measurement* a, const Measurement* b) {
      return a->started_unix_s < b->started_unix_s;
    });
    const Measurement& any = *points.front();
    Drift drift{any.run_id, any.device_id, any.device_class, task_text(any.task), {}};
    for (const Measurement* row : points) {
      drift.points.emplace_back(row->started_unix_s, row->time.median_s);
    }
    repeats.drifts.push_back(std::move(drift));
  }
  return repeats;
}

}  // namespace forecost
