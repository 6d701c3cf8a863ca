#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/corpus_output.hpp"
#include "core/units.hpp"
#include "data/corpus/journal.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;

/// Adds them all: nothing measured is dropped, but faults are told.
void add_rows(Merger& merger, Corpus corpus, const fs::path& file) {
  std::size_t faults = 0;
  std::string first;
  for (const Measurement& row : corpus.rows) {
    const std::string fault = row_fault(row);
    if (!fault.empty() && faults++ == 0) first = fault;
  }
  if (faults > 0) {
    spdlog::warn("{}: {} not valid ({}{}): see 'forecost corpus validate'", file.string(),
                 format_counted(static_cast<double>(faults), "row"), first,
                 faults > 1 ? ", ..." : "");
  }
  merger.add(std::move(corpus));
}

/// Adds a run directory's journals and corpus.h5, or a corpus.
void add_input(Merger& merger, const fs::path& input, const fs::path& output, bool salvage) {
  if (!fs::is_directory(input)) {
    add_rows(merger, read_corpus(input), input);
    return;
  }
  const auto journals = journals_of(input);
  if (journals.empty() && !fs::exists(input / "corpus.h5")) {
    throw DataError(no_run_directory(input));
  }
  std::vector<std::string> damage;
  for (const fs::path& journal : journals) {
    add_rows(merger, read_journal(journal, salvage ? &damage : nullptr), journal);
  }
  for (const std::string& line : damage) spdlog::warn("{}", line);
  // It may hold rows whose journals were cleaned up; or there is none yet.
  const fs::path corpus = input / "corpus.h5";
  std::error_code ignored;
  if (fs::exists(corpus) && !fs::equivalent(corpus, output, ignored)) {
    add_rows(merger, read_corpus(corpus), corpus);
  }
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("output,o", po::value<std::string>()->required(),
                        "the merged corpus; what it already holds stays in it");
  add_on_conflict(options);
  options.add_options()("salvage",
                        "of a damaged journal take the records that are whole, and warn; else "
                        "nothing is merged");
  po::variables_map values;
  if (!parse(
          world,
          {"forecost corpus merge RUN_DIR|CORPUS.h5... -o CORPUS.h5 [options]",
           "Merges run directories and corpora into one file. The same row twice is kept once; an\n"
           "ok row supersedes an earlier failure; rows that contradict each other are listed and\n"
           "nothing is written (exit code 4), unless --on-conflict says which to keep.",
           "  forecost corpus merge run-a run-b/corpus.h5 -o both.h5\n"
           "  forecost corpus merge monday tuesday -o both.h5 --on-conflict newest\n"
           "  forecost corpus merge damaged-run -o saved.h5 --salvage"},
          options, -1, arguments, values)) {
    return ExitCode::done;
  }
  const auto inputs = positionals(values);
  if (inputs.empty()) throw UsageError("corpus merge: expected corpus files or run directories");
  const fs::path output = values["output"].as<std::string>();
  const bool salvage = values.count("salvage") > 0;
  // The corpus.h5 of a run directory can be made again from its journals.
  const bool remade = std::any_of(inputs.begin(), inputs.end(), [&](const fs::path input) {
    std::error_code ignored;
    return fs::is_directory(input) && fs::equivalent(input / "corpus.h5", output, ignored);
  });
  add_to_corpus(
      output, fmt::format("merged {}", format_counted(static_cast<double>(inputs.size()), "input")),
      [&](Merger& merger) {
        for (const fs::path input : inputs) add_input(merger, input, output, salvage);
      },
      {.on_conflict = on_conflict_of(values), .set_damaged_aside = remade});
  return ExitCode::done;
}

}  // namespace

extern const Verb corpus_merge{"merge", "merge run directories and corpora", &run};

}  // namespace forecost::cli
