#include <algorithm>
#include <array>
#include <iostream>

#include <fmt/format.h>

#include "cli/verb.hpp"

namespace forecost::cli {

// One file each, cli/corpus_NAME.cpp.
extern const Verb corpus_info;
extern const Verb corpus_validate;
extern const Verb corpus_merge;
extern const Verb corpus_import;
extern const Verb corpus_export;
extern const Verb corpus_diff;

namespace {

constexpr std::array subcommands{&corpus_info,   &corpus_validate, &corpus_merge,
                                 &corpus_import, &corpus_export,   &corpus_diff};

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  if (world.rank() != 0) return ExitCode::done;
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::ostream& out = arguments.empty() ? std::cerr : std::cout;
    out << "usage: forecost corpus SUBCOMMAND ...   (each has --help with examples)\n\n";
    for (const Verb* s : subcommands) out << fmt::format("  {:<10} {}\n", s->name, s->summary);
    return arguments.empty() ? ExitCode::usage : ExitCode::done;
  }
  std::vector<std::string> known;
  for (const Verb* subcommand : subcommands) {
    if (subcommand->name == arguments[0]) {
      return subcommand->run(world, {arguments.begin() + 1, arguments.end()});
    }
    known.emplace_back(subcommand->name);
  }
  throw UsageError(unknown_name("corpus subcommand", arguments[0], known));
}

}  // namespace

extern const Verb corpus_verb{"corpus", "look into, check, merge, import, export, compare", &run};

}  // namespace forecost::cli
