#include <iostream>

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "core/file.hpp"
#include "core/units.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/merge.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

ExitCode run(const World& world, const Arguments& arguments) {
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

}  // namespace

extern const Verb corpus_merge{"merge", "merge run directories and corpora", &run};

}  // namespace forecost::cli
