#include <iostream>

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "core/units.hpp"
#include "data/corpus/corpus.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

ExitCode run(const World& world, const Arguments& arguments) {
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

}  // namespace

extern const Verb corpus_validate{"validate", "check a corpus or run directory", &run};

}  // namespace forecost::cli
