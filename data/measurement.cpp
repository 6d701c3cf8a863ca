#include "data/measurement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/hash.hpp"
#include "core/statistics.hpp"

namespace forecost {

namespace {

std::string_view next_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

TimingSummary summarize(std::vector<double> samples) {
  TimingSummary s;
  if (samples.empty()) return s;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  s.n = static_cast<std::int64_t>(samples.size());
  s.min_s = samples.front();
  s.q1_s = quantile(samples, 0.25);
  s.median_s = quantile(samples, 0.5);
  s.q3_s = quantile(samples, 0.75);
  s.max_s = samples.back();
  s.mean_s = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : samples) squares += (sample - s.mean_s) * (sample - s.mean_s);
  s.stdev_s = samples.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;

  std::vector<double> deviations;
  for (const double sample : samples) deviations.push_back(std::fabs(sample - s.median_s));
  std::sort(deviations.begin(), deviations.end());
  const double mad = quantile(deviations, 0.5);
  s.outliers = std::count_if(deviations.begin(), deviations.end(),
                             [&](double deviation) { return deviation > 5 * mad; });
  return s;
}

namespace {

std::string id_of_facts(const std::map<std::string, std::string>& facts) {
  std::string text;
  for (const auto& [key, value] : facts) text += key + "=" + value + "\n";
  return short_id(text);
}

}  // namespace

std::string Environment::id() const { return id_of_facts(facts); }
std::string GangRecord::id() const { return id_of_facts(facts); }

std::string task_text(const Task& task) {
  return fmt::format("{} {} {} {} {} {}", name_of(task.pass), name_of(task.dtype),
                     name_of(task.optimizer), name_of(task.cache), name_of(task.policy),
                     task.layer.text());
}

Task parse_task(std::string_view text) {
  const auto pass = parse_enum<Pass>(next_word(text));
  const auto dtype = parse_enum<DType>(next_word(text));
  const auto optimizer = parse_enum<Optimizer>(next_word(text));
  const auto cache = parse_enum<CacheState>(next_word(text));
  const auto policy = parse_enum<AlgorithmPolicy>(next_word(text));
  return {Layer::parse(text), pass, dtype, optimizer, cache, policy};
}

std::string task_key(const Task& task, std::string_view device_class) {
  return fmt::format("{} @ {}", task_text(task), device_class);
}

std::string row_key(const Measurement& row) {
  return fmt::format("{} {} {}{}{} {} {}", task_key(row.task, row.device_class), row.device_id,
                     row.environment_id, row.group_id.empty() ? "" : " ", row.group_id,
                     name_of(row.protocol), row.replicate);
}

}  // namespace forecost
