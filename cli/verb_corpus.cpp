#include <algorithm>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/verb.hpp"
#include "core/file.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/merge.hpp"

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
  std::map<std::pair<std::string, std::string>, std::int64_t> reasons;  // by status and reason
  for (const Measurement& row : corpus.rows) {
    const std::string status(name_of(row.status));
    ++statuses[status];
    if (row.status != Status::ok) ++reasons[{status, row.reason}];
    ++counts[{std::string(row.task.layer.op().name), std::string(name_of(row.task.pass))}][status];
    ++rows_of_class[row.device_class];
  }
  std::cout << fmt::format("{}: {} rows ({})\n\n", file.string(),
                           format_count(static_cast<double>(corpus.rows.size())), listed(statuses));
  TextTable operators({"operator", "pass", ">rows", "statuses"});
  for (const auto& [key, by_status] : counts) {
    std::int64_t rows = 0;
    for (const auto& [status, count] : by_status) rows += count;
    operators.add(
        {key.first, key.second, format_count(static_cast<double>(rows)), listed(by_status)});
  }
  std::cout << operators.str() << "\n";
  if (!reasons.empty()) {
    using Reason = std::pair<std::pair<std::string, std::string>, std::int64_t>;
    std::vector<Reason> sorted(reasons.begin(), reasons.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Reason& a, const Reason& b) { return a.second > b.second; });
    constexpr std::size_t most = 10;
    TextTable table({"status", ">rows", "reason"});
    for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i) {
      const auto& [key, count] = sorted[i];
      table.add({key.first, format_count(static_cast<double>(count)), key.second});
    }
    std::cout << table.str();
    if (sorted.size() > most) {
      std::cout << fmt::format(
          "and {}\n", format_counted(static_cast<double>(sorted.size() - most), "other reason"));
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
  for (const Environment& environment : corpus.environments) {
    std::cout << "environment " << environment.id() << ":";
    const char* separator = " ";
    for (const auto& [name, value] : environment.facts) {
      std::cout << fmt::format("{}{}={}", separator, name, value);
      separator = "; ";
    }
    std::cout << "\n";
  }
  for (const SweepRecord& sweep : corpus.sweeps) {
    std::cout << fmt::format("sweep {}: {}\n", sweep.id, sweep.name);
  }
  for (const Run& run : corpus.runs) std::cout << fmt::format("run {}\n", run.id);
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

ExitCode info(const World& world, const Arguments& arguments) {
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

ExitCode validate(const World& world, const Arguments& arguments) {
  po::options_description options;
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus validate CORPUS.h5|RUN_DIR...",
           "Checks digest, schema, keys, ranges, times and ids, of a run directory every journal\n"
           "too. Prints one line per problem; exit code 4 if there is any.",
           "  forecost corpus validate run/corpus.h5\n"
           "  forecost corpus validate run"},
          options, -1, arguments, values)) {
    return ExitCode::done;
  }
  if (positionals(values).empty())
    throw UsageError("corpus validate: expected corpus files or run directories");
  ExitCode code = ExitCode::done;
  for (const fs::path path : positionals(values)) {
    const auto problems =
        fs::is_directory(path) ? validate_run_directory(path) : validate_corpus(path);
    for (const auto& problem : problems) std::cout << problem << "\n";
    if (problems.empty()) {
      std::cout << path.string() << ": valid\n";
    } else {
      std::cout << fmt::format("{}: {}\n", path.string(),
                               format_counted(static_cast<double>(problems.size()), "problem"));
      code = ExitCode::data;
    }
  }
  return code;
}

ExitCode merge(const World& world, const Arguments& arguments) {
  po::options_description options;
  options.add_options()("output,o", po::value<std::string>()->required(), "the merged corpus");
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus merge RUN_DIR|CORPUS.h5... -o CORPUS.h5",
           "Merges journals and corpora into one file. The same row twice is kept once; an ok row\n"
           "supersedes an earlier failure; rows that contradict each other are listed and nothing "
           "is\n"
           "written (exit code 4).",
           "  forecost corpus merge run-a run-b/corpus.h5 -o both.h5"},
          options, -1, arguments, values)) {
    return ExitCode::done;
  }
  if (positionals(values).empty())
    throw UsageError("corpus merge: expected corpus files or run directories");
  const fs::path output = values["output"].as<std::string>();
  check_output(output);
  if (fs::exists(output) && !is_corpus(output)) {
    throw UsageError(
        fmt::format("-o {}: it exists and is no corpus: name another file", output.string()));
  }
  Corpus all;
  Merger merger(all);
  for (const fs::path path : positionals(values)) {
    // A run directory may hold rows in its corpus.h5 only (its journals were cleaned up), or in its
    // journals only (it was killed before the first merge).
    if (fs::is_directory(path)) {
      merger.add(read_journals(path));
      if (!fs::exists(path / "corpus.h5")) continue;
    }
    merger.add(read_corpus(path));
  }
  const auto conflicts = merger.finish();
  if (!conflicts.empty()) {
    for (const auto& conflict : conflicts) std::cerr << conflict << "\n";
    throw DataError(
        fmt::format("{}; nothing was written",
                    format_counted(static_cast<double>(conflicts.size()), "conflicting row")));
  }
  all.history.push_back(history_line(
      fmt::format("merged {} inputs into {} rows", positionals(values).size(), all.rows.size())));
  write_corpus(all, output);
  std::cout << fmt::format("{}: {} rows\n", output.string(),
                           format_count(static_cast<double>(all.rows.size())));
  return ExitCode::done;
}

struct Subcommand {
  std::string_view name, summary;
  ExitCode (*run)(const World&, const Arguments&);
};

constexpr Subcommand subcommands[] = {
    {"info", "show what a corpus holds", &info},
    {"validate", "check a corpus or run directory", &validate},
    {"merge", "merge run directories and corpora", &merge},
};

ExitCode run(const World& world, const Arguments& arguments) {
  if (world.rank() != 0) return ExitCode::done;
  std::vector<std::string> known;
  for (const Subcommand& subcommand : subcommands) known.emplace_back(subcommand.name);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::ostream& out = arguments.empty() ? std::cerr : std::cout;
    out << "usage: forecost corpus SUBCOMMAND ...   (each has --help with examples)\n\n";
    for (const Subcommand& s : subcommands) out << fmt::format("  {:<10} {}\n", s.name, s.summary);
    return arguments.empty() ? ExitCode::usage : ExitCode::done;
  }
  for (const Subcommand& subcommand : subcommands) {
    if (subcommand.name == arguments[0]) {
      return subcommand.run(world, {arguments.begin() + 1, arguments.end()});
    }
  }
  throw UsageError(unknown_name("corpus subcommand", arguments[0], known));
}

}  // namespace

extern const Verb corpus_verb{"corpus", "look into, check and merge corpora", &run};

}  // namespace forecost::cli
