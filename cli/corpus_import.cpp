#include <iostream>

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "core/file.hpp"
#include "core/units.hpp"
#include "data/corpus/import.hpp"
#include "data/corpus/merge.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

std::map<std::string, std::string> facts_of(const po::variables_map& values) {
  std::map<std::string, std::string> facts;
  if (values.count("fact") == 0) return facts;
  for (const auto& text : values["fact"].as<Arguments>()) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw UsageError(fmt::format("--fact {}: expected NAME=VALUE", text));
    }
    facts[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return facts;
}

std::string summary(std::string_view name, const ImportCounts& counts) {
  const auto count = [](std::int64_t n) { return format_count(static_cast<double>(n)); };
  return fmt::format("{}: {}: {} imported, {} refused, {} filtered out\n", name,
                     format_counted(static_cast<double>(counts.rows), "row"),
                     count(counts.imported), count(counts.refused), count(counts.filtered));
}

ExitCode run(const World& world, const Arguments& arguments) {
  po::options_description options;
  auto add = options.add_options();
  add("mapping", po::value<std::string>()->required(),
      "what the columns mean: a shipped mapping or a TOML file");
  add("device", po::value<std::string>(),
      "what the timings were taken on, where the mapping does not tell: a shipped device or a TOML "
      "file");
  add("output,o", po::value<std::string>()->required(), "the corpus, which keeps what it holds");
  add("fact", po::value<Arguments>(), "NAME=VALUE of the environment, such as driver=390.30");
  add("strict", "stop at the first row that cannot be imported, and write nothing");
  add("rejects", po::value<std::string>(), "CSV file for the rows that cannot be imported");
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus import FILE.csv... --mapping MAP [--device DEVICE] -o CORPUS.h5 "
           "[options]",
           "Imports timing tables that others made. The mapping says which column is what, in "
           "which\n"
           "unit. Rows that cannot be imported are counted, and the first ones shown; exit code 4 "
           "if\n"
           "none can, or --strict is given. Importing again changes nothing.",
           "  forecost corpus import justus_conv_K80.csv --mapping justus2018-conv --device k80 -o "
           "c.h5\n"
           "  forecost corpus import times.csv --mapping my-table.toml --device v100 -o c.h5 "
           "--rejects bad.csv"},
          options, -1, arguments, values)) {
    return ExitCode::done;
  }
  if (positionals(values).empty()) throw UsageError("corpus import: expected CSV files");
  const fs::path output = values["output"].as<std::string>();
  check_output(output);
  if (fs::exists(output) && !is_corpus(output)) {
    throw UsageError(
        fmt::format("-o {}: it exists and is no corpus: name another file", output.string()));
  }
  std::optional<fs::path> rejects;
  if (values.count("rejects") > 0) {
    rejects = values["rejects"].as<std::string>();
    check_output(*rejects);
  }

  constexpr int most_shown = 20;
  int shown = 0;
  std::string rejected =
      csv_line(std::vector<std::string>{"file", "line", "column", "value", "reason"});
  ImportOptions how{.facts = facts_of(values), .strict = values.count("strict") > 0};
  if (values.count("device") > 0) how.device = find_device(values["device"].as<std::string>());
  how.on_refused = [&, strict = how.strict](const RefusedRow& row) {
    if (rejects) {
      rejected += csv_line(std::vector<std::string>{row.file, std::to_string(row.line), row.column,
                                                    row.value, row.reason});
    }
    if (!strict && ++shown <= most_shown) std::cerr << row.text() << "\n";
  };
  Importer importer(find_import_mapping(values["mapping"].as<std::string>()), how);
  ImportCounts all;
  std::string summaries;
  Corpus merged;
  Merger merger(merged);
  if (fs::exists(output)) merger.add(read_corpus(output));
  for (const fs::path file : positionals(values)) {
    const ImportCounts counts = importer.add(file, [&](const Corpus& batch) { merger.add(batch); });
    summaries += summary(file.string(), counts);
    all.rows += counts.rows;
    all.imported += counts.imported;
    all.refused += counts.refused;
    all.filtered += counts.filtered;
    for (const auto& [reason, count] : counts.reasons) all.reasons[reason] += count;
  }
  if (shown > most_shown) {
    std::cerr << fmt::format("and {}; --rejects FILE.csv lists all\n",
                             format_counted(shown - most_shown, "other row"));
  }
  for (const auto& [reason, count] : all.reasons) {
    std::cerr << fmt::format("{} refused: {}\n", format_counted(static_cast<double>(count), "row"),
                             reason);
  }
  if (rejects) replace_text(*rejects, rejected);
  std::cout << summaries;
  if (positionals(values).size() > 1) std::cout << summary("all files", all);
  if (all.imported == 0) throw DataError("no row was imported; nothing was written");
  const auto conflicts = merger.finish();
  for (const auto& conflict : conflicts) std::cerr << conflict << "\n";
  if (!conflicts.empty()) {
    throw DataError(
        fmt::format("{}; nothing was written",
                    format_counted(static_cast<double>(conflicts.size()), "conflicting row")));
  }
  write_corpus(merged, output);
  return ExitCode::done;
}

}  // namespace

extern const Verb corpus_import{"import", "import timing tables that others made", &run};

}  // namespace forecost::cli
