#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>

#include "core/error.hpp"
#include "mpi/world.hpp"

namespace forecost::cli {

/// One verb of the command line: one file, one line in cli/verbs.cpp.
struct Verb {
  std::string_view name;
  std::string_view summary;
  /// The arguments after the verb. Every rank calls it; results go to stdout on rank 0 only.
  ExitCode (*run)(const World& world, const std::vector<std::string>& arguments);
  /// Whether it takes signals as a wish to stop early (core/stop.hpp); others are ended by them.
  bool stops_early = false;
};
std::span<const Verb> verbs();

namespace po = boost::program_options;

/// The help of a verb: usage line, options, examples.
struct Help {
  std::string_view usage;     ///< "forecost collect SWEEP.toml -o RUN_DIR [options]"
  std::string_view about;     ///< a paragraph
  std::string_view examples;  ///< lines, each indented by two blanks
};

/// Parses options and positionals (bound to the hidden option `positional`, a vector of strings, if
/// `max_positional` is not 0; -1 is unlimited). Returns false after it has printed the help for
/// -h/--help. Throws UsageError with one line that names the option and what is allowed.
bool parse(const World& world, const Help& help, const po::options_description& options,
           int max_positional, const std::vector<std::string>& arguments,
           po::variables_map& values);

// The values of options, checked; each throws UsageError that says what was expected.
/// A finite number above 0.
double positive_number(const po::variables_map& values, const char* name);
/// An int64 of at least `least`.
std::int64_t count_of(const po::variables_map& values, const char* name, std::int64_t least);
/// --cores: 0 stands for all that the process is bound to. None are of --backend cuda.
int cores_of(const po::variables_map& values);
/// What --backend and --replay ask for together: `replay` where auto is given sources to play.
/// Throws UsageError where they contradict each other.
std::string backend_of(const std::string& backend, const std::string& replay);
/// --layout, empty if it is not given; `backend` is what backend_of() says.
std::string layout_of(const po::variables_map& values, const std::string& backend);
/// --batch: one or more.
std::vector<std::int64_t> batches_of(const po::variables_map& values);

/// The positional arguments, possibly none.
std::vector<std::string> positionals(const po::variables_map& values);

}  // namespace forecost::cli
