#include <algorithm>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/verb.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/reasons.hpp"
#include "data/corpus/repeats.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

template <class Count>
std::string listed(const std::map<std::string, Count>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        format_count(static_cast<double>(count)), name);
  }
  return text;
}

void print_info(const Corpus& corpus, const fs::path& file) {
  std::map<std::string, std::int64_t> statuses;
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::int64_t>> counts;
  std::map<std::string, std::int64_t> rows_of_class;
  for (const Measurement& row : corpus.rows) {
    const std::string status(name_of(row.status));
    ++statuses[status];
    ++counts[{std::string(row.task.layer.op().name), std::string(name_of(row.task.pass))}][status];
    ++rows_of_class[row.device_class];
  }
  const std::string all = listed(statuses);
  std::cout << fmt::format("{}: {}{}\n\n", file.string(), format_counted(corpus.rows.size(), "row"),
                           all.empty() ? "" : " (" + all + ")");
  TextTable operators({"operator", "pass", ">rows", "statuses"});
  for (const auto& [key, by_status] : counts) {
    std::int64_t rows = 0;
    for (const auto& [status, count] : by_status) rows += count;
    operators.add(
        {key.first, key.second, format_count(static_cast<double>(rows)), listed(by_status)});
  }
  std::cout << operators.str() << "\n";
  if (const auto reasons = count_reasons(corpus.rows); !reasons.empty()) {
    constexpr std::size_t most = 10;
    TextTable table({"status", ">rows", "reason"});
    for (std::size_t i = 0; i < std::min(most, reasons.size()); ++i) {
      const auto& [status, reason, rows] = reasons[i];
      table.add({std::string(name_of(status)), format_count(static_cast<double>(rows)), reason});
    }
    std::cout << table.str();
    if (reasons.size() > most) {
      std::cout << fmt::format(
          "and {}\n", format_counted(static_cast<double>(reasons.size() - most), "other reason"));
    }
    std::cout << "\n";
  }
  TextTable devices(
      {"class", "name", "host", ">rows of class", ">peak f32", ">peak bf16", ">bandwidth", "uuid"});
  for (const Device& d : corpus.devices) {
    devices.add({d.device_class, d.name, d.host,
                 format_count(static_cast<double>(rows_of_class[d.device_class])),
                 format_si(d.peak_flops(DType::f32), "FLOP/s"),
                 format_si(d.peak_flops(DType::bf16), "FLOP/s"),
                 format_si(d.bandwidth_bytes_per_s(), "B/s"), d.uuid});
  }
  std::cout << devices.str() << "\n";
  const auto tell = [](const char* what, const std::string& id, const auto& facts) {
    std::cout << what << " " << id << ":";
    const char* separator = " ";
    for (const auto& [name, value] : facts) {
      std::cout << fmt::format("{}{}={}", separator, name, value);
      separator = "; ";
    }
    std::cout << "\n";
  };
  for (const auto& environment : corpus.environments) {
    tell("environment", environment.id(), environment.facts);
  }
  for (const auto& group : corpus.groups) tell("group", group.id(), group.facts);
  std::cout << find_repeats(corpus.rows).text();
  for (const SweepRecord& sweep : corpus.sweeps) {
    std::cout << fmt::format("sweep {}: {}\n", sweep.id, sweep.name);
  }
  for (const Run& run : corpus.runs) tell("run", run.id, run.facts);
  for (const auto& line : corpus.history) std::cout << "history " << line << "\n";
}

nlohmann::json info_json(const Corpus& corpus) {
  nlohmann::json json{{"rows", corpus.rows.size()},
                      {"operators", nlohmann::json::object()},
                      {"devices", nlohmann::json::array()},
                      {"statuses", nlohmann::json::object()}};
  std::map<std::string, std::size_t> operators, statuses;
  for (const Measurement& row : corpus.rows) {
    ++operators[std::string(row.task.layer.op().name)];
    ++statuses[std::string(name_of(row.status))];
  }
  std::map<std::string, int> classes;
  for (const Device& device : corpus.devices) ++classes[device.device_class];
  json["operators"] = operators;
  json["statuses"] = statuses;
  for (const auto& [name, count] : classes) json["devices"].push_back(name);
  return json;
}

ExitCode run(const World& world, const Arguments& arguments) {
  po::options_description options;
  options.add_options()("json", "print one JSON object: rows, operators, devices, statuses");
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus info CORPUS.h5|RUN_DIR [--json]",
           "Shows what a corpus holds: rows by operator, pass and status; devices, environments,\n"
           "sweeps, runs and history.",
           "  forecost corpus info run/corpus.h5\n"
           "  forecost corpus info run --json"},
          options, 1, arguments, values)) {
    return ExitCode::done;
  }
  if (positionals(values).empty())
    throw UsageError("corpus info: expected a corpus file or run directory");
  const fs::path file = corpus_file(positionals(values)[0]);
  const Corpus corpus = read_corpus(file, false);
  if (values.count("json") > 0) {
    std::cout << info_json(corpus).dump(2) << "\n";
  } else {
    print_info(corpus, file);
  }
  return ExitCode::done;
}

}  // namespace

extern const Verb corpus_info{"info", "show what a corpus holds", &run};

}  // namespace forecost::cli
