#include "collect/backends/replay/replay_spec.hpp"

#include <charconv>

#include <fmt/format.h>

#include "core/error.hpp"

namespace forecost {

namespace {

struct Option {
  std::string_view name;
  double ReplayFaults::*member;
  double max;
};
constexpr Option options[] = {
    {"noise", &ReplayFaults::noise, 1},
    {"fail", &ReplayFaults::fail, 1},
    {"unsupported", &ReplayFaults::unsupported, 1},
    {"oom", &ReplayFaults::oom, 1},
    {"nonfinite", &ReplayFaults::nonfinite, 1},
    {"throttle", &ReplayFaults::throttle, 1},
    {"throttled_runs", &ReplayFaults::throttled_runs, 1e6},
    {"shared", &ReplayFaults::shared, 1},
    {"first_run_s", &ReplayFaults::first_run_s, 1e6},
    {"slow_runs", &ReplayFaults::slow_runs, 1e6},
    {"drift", &ReplayFaults::drift, 100},
    {"poison", &ReplayFaults::poison, 1},
    {"kill", &ReplayFaults::kill, 1},
    {"crash", &ReplayFaults::crash, 1},
    {"real_delay_s", &ReplayFaults::real_delay_s, 60},
    {"real_probe_s", &ReplayFaults::real_probe_s, 60},
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void set_option(ReplayFaults& faults, std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  std::vector<std::string> known;
  for (const Option& option : options) {
    known.emplace_back(option.name);
    if (option.name != name) continue;
    const std::string_view number = name.size() < text.size() ? text.substr(name.size() + 1) : "";
    double value = 0;
    const auto [end, error] = std::from_chars(number.begin(), number.end(), value);
    if (error != std::errc{} || end != number.end() || !(value >= 0 && value <= option.max)) {
      throw UsageError(
          fmt::format("--replay: '{}': expected {}=NUMBER from 0 to {}", text, name, option.max));
    }
    faults.*option.member = value;
    return;
  }
  throw UsageError("--replay: " + unknown_name("option", name, known));
}

}  // namespace

std::vector<ReplayEntry> parse_replay(std::string_view text) {
  std::vector<ReplayEntry> entries;
  for (const std::string_view entry : split(text, ',')) {
    const auto parts = split(entry, ':');
    if (entry.empty() && !text.empty()) {
      throw UsageError(fmt::format(
          "--replay {}: expected a device, a corpus.h5 or none on either side of a comma", text));
    }
    ReplayEntry parsed{std::string(parts.front()), {}};
    for (std::size_t i = 1; i < parts.size(); ++i) set_option(parsed.faults, parts[i]);
    entries.push_back(std::move(parsed));
  }
  return entries;
}

}  // namespace forecost
