#include <iostream>

#include <fmt/format.h>

#include "cli/corpus_output.hpp"
#include "core/file.hpp"
#include "core/units.hpp"
#include "data/corpus/import.hpp"
#include "data/text.hpp"

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
      throw UsageError(fmt::format("--fact {}: expected NAME=VALUE", shown(text)));
    }
    if (!is_line(text)) {
      throw UsageError(fmt::format("--fact {}: expected UTF-8 text of one line", shown(text)));
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

const std::string rejects_header =
    csv_line(std::vector<std::string>{"file", "line", "column", "value", "reason"});

/// Refuses a list of rejects that would replace anything but an earlier one: `taken` are the files
/// that this import reads or writes, whether they exist yet or not.
void check_rejects(const fs::path& rejects, const std::vector<fs::path>& taken) {
  check_text_output(rejects, "--rejects", "list of rejects",
                    [](const std::string& line) { return line + "\n" == rejects_header; });
  std::error_code error;  // of what is not there yet, or is a pipe
  const auto full = [&](const fs::path& file) {
    return fs::weakly_canonical(fs::absolute(file), error);
  };
  for (const fs::path& file : taken) {
    if ((!full(file).empty() && full(rejects) == full(file)) ||
        fs::equivalent(rejects, file, error)) {
      throw UsageError(fmt::format("--rejects {}: this import uses that file{}: name another",
                                   rejects.string(),
                                   file == rejects ? "" : " as " + file.string()));
    }
  }
}

/// What is told of rows that cannot be imported.
class Refusals {
 public:
  Refusals(std::optional<fs::path> rejects, bool strict)
      : rejects_(std::move(rejects)), strict_(strict) {}
  void add(const RefusedRow& row) {
    if (rejects_) {
      table_ += csv_line(std::vector<std::string>{row.file, std::to_string(row.line), row.column,
                                                  row.value, row.reason});
    }
    constexpr int most = 20;
    if (strict_) return;  // it is the error
    if (++count_ <= most) std::cerr << row.text() << "\n";
    if (count_ == most + 1) {
      std::cerr << "(more rows are refused; --rejects FILE.csv lists all)\n";
    }
  }
  void finish(const std::map<std::string, std::int64_t>& reasons) const {
    for (const auto& [reason, count] : reasons) {
      std::cerr << fmt::format("{} refused: {}\n",
                               format_counted(static_cast<double>(count), "row"), reason);
    }
    if (rejects_) replace_text(*rejects_, table_);
  }

 private:
  std::optional<fs::path> rejects_;
  bool strict_;
  int count_ = 0;
  std::string table_ = rejects_header;
};

ExitCode run(const World& world, const Arguments& arguments) {
  po::options_description options;
  options.add_options()("mapping", po::value<std::string>()->required(),
                        "what the columns mean: a shipped mapping or a TOML file")(
      "device", po::value<std::string>(),
      "what the timings were taken on, where the mapping does not tell: a shipped device or a TOML "
      "file")("output,o", po::value<std::string>()->required(),
              "the corpus; what it already holds stays in it");
  add_on_conflict(options);
  options.add_options()("fact", po::value<Arguments>(),
                        "NAME=VALUE of the environment, such as driver=390.30; any number of them")(
      "strict", "stop at the first row that cannot be imported, and write nothing")(
      "rejects", po::value<std::string>(), "CSV file that lists the rows that cannot be imported");
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus import FILE.csv... --mapping MAPPING -o CORPUS.h5 [options]",
           "Takes timing tables that others made into a corpus. The mapping says which column is\n"
           "what, in which unit. Rows that cannot be imported are listed and counted; exit code 4 "
           "if\n"
           "no row can. Importing again changes nothing.",
           "  forecost corpus import conv_K80.csv --mapping justus2018-conv --device k80 -o "
           "all.h5\n"
           "  forecost corpus import a.csv b.csv --mapping my-table.toml -o all.h5 --strict"},
          options, -1, arguments, values)) {
    return ExitCode::done;
  }
  const auto files = positionals(values);
  if (files.empty()) throw UsageError("corpus import: expected CSV files");
  for (const char* option : {"output", "rejects"}) {
    if (values.count(option) == 0 || values[option].as<std::string>() != "-") continue;
    throw UsageError(fmt::format(
        "--{} -: expected the name of a file; an import does not write to the standard output",
        option));
  }
  const fs::path output = values["output"].as<std::string>();
  const std::string mapping = values["mapping"].as<std::string>();
  std::optional<fs::path> rejects;
  if (values.count("rejects") > 0) {
    rejects = values["rejects"].as<std::string>();
    std::vector<fs::path> taken(files.begin(), files.end());
    taken.push_back(shipped_or_file("import", "mapping", mapping));
    if (values.count("device") > 0) {
      taken.push_back(shipped_or_file("devices", "device", values["device"].as<std::string>()));
    }
    taken.insert(taken.end(),
                 {output, fs::path(output) += ".sha256", "/dev/stdout", "/dev/stderr"});
    check_rejects(*rejects, taken);
  }
  const bool strict = values.count("strict") > 0;
  Refusals refusals(rejects, strict);
  ImportOptions how{.facts = facts_of(values),
                    .strict = strict,
                    .on_refused = [&](const RefusedRow& row) { refusals.add(row); }};
  if (values.count("device") > 0) how.device = find_device(values["device"].as<std::string>());
  Importer importer(find_import_mapping(mapping), how);
  add_to_corpus(
      output,
      fmt::format("imported {} by {}", format_counted(static_cast<double>(files.size()), "table"),
                  fs::path(mapping).filename().string()),
      [&](Merger& merger) {
        ImportCounts all;
        std::string summaries;
        for (const fs::path file : files) {
          const ImportCounts counts = importer.add(
              file, [&](Corpus batch) { merger.add(std::move(batch)); },
              [&](std::size_t rows) { merger.expect(rows); });
          summaries += summary(file.string(), counts);
          all.rows += counts.rows;
          all.imported += counts.imported;
          all.refused += counts.refused;
          all.filtered += counts.filtered;
          for (const auto& [reason, count] : counts.reasons) all.reasons[reason] += count;
        }
        refusals.finish(all.reasons);
        std::cout << summaries << (files.size() > 1 ? summary("all tables", all) : "")
                  << std::flush;
        if (all.imported == 0) throw DataError("no row was imported; nothing was written");
      },
      {.on_conflict = on_conflict_of(values)});
  return ExitCode::done;
}

}  // namespace

extern const Verb corpus_import{"import", "take in timing tables that others made", &run};

}  // namespace forecost::cli
