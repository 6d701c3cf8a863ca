#include <chrono>
#include <iostream>
#include <thread>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/verb.hpp"
#include "core/log.hpp"
#include "core/stop.hpp"
#include "core/version.hpp"
#include "data/text.hpp"
#include "mpi/agree.hpp"
#include "mpi/world.hpp"

namespace forecost::cli {
namespace {

void print_usage(std::ostream& out) {
  out << "Forecost predicts what deep-learning models cost on hardware.\n\n"
         "usage: forecost VERB [options]     (forecost VERB --help shows options and examples)\n\n";
  for (const Verb& verb : verbs()) out << fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  out << "\n  forecost --version\n";
}

/// One line for a terminal, whatever names of files or devices hold.
std::string one_line(const std::exception& error) { return shown(error.what(), std::string::npos); }

ExitCode dispatch(const World& world, const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "--help" : arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    if (world.rank() == 0) print_usage(arguments.empty() ? std::cerr : std::cout);
    return arguments.empty() ? ExitCode::usage : ExitCode::done;
  }
  if (name == "--version") {
    if (world.rank() == 0) std::cout << "forecost " << version << "\n";
    return ExitCode::done;
  }
  std::vector<std::string> known;
  for (const Verb& verb : verbs()) {
    if (verb.name == name) return verb.run(world, {arguments.begin() + 1, arguments.end()});
    known.emplace_back(verb.name);
  }
  // Every rank sees the same arguments.
  throw AgreedError(ExitCode::usage, unknown_name("verb", name, known));
}

}  // namespace
}  // namespace forecost::cli

int main(int argc, char** argv) {
  using namespace forecost;
  for (const cli::Verb& verb : cli::verbs()) {
    if (argc > 1 && verb.name == argv[1] && verb.stops_early) install_stop_handlers();
  }
  setup_logging(0);
  int code = static_cast<int>(ExitCode::internal);
  try {
    const World world(argc, argv);
    setup_logging(world.rank());
    try {
      code = static_cast<int>(cli::dispatch(world, {argv + 1, argv + argc}));
    } catch (const AgreedError& error) {
      // All ranks are here: an orderly end with one message, instead of an abort with one each.
      code = static_cast<int>(error.code());
      if (world.rank() == 0) std::cerr << "forecost: error: " << cli::one_line(error) << "\n";
    } catch (const std::exception& error) {
      code = static_cast<int>(exit_code_of(error));
      if (world.size() > 1) {
        // Other ranks may be waiting for this one: nothing but an abort is sure to end them. Most
        // errors (a bad file, a full disk) are every rank's: rank 0 then tells it once and aborts
        // the others, which Open MPI kills a second after a SIGTERM that is no more than a wish to
        // us.
        if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(3));
        std::cerr << fmt::format("forecost: error: rank {}: {}\n", world.rank(),
                                 cli::one_line(error));
        world.abort(code);
      }
      std::cerr << "forecost: error: " << cli::one_line(error) << "\n";
    }
    // Results that went nowhere (a full disk, a closed pipe) are no success.
    if (!std::cout.flush()) {
      code = static_cast<int>(ExitCode::environment);
      std::cerr << "forecost: error: the results could not be written to the standard output\n";
    }
    // A rank that leaves early with a bad code makes mpirun kill those still finishing.
    code = world.all_max(code);
    world.barrier();
  } catch (const std::exception& error) {
    code = static_cast<int>(exit_code_of(error));
    std::cerr << "forecost: error: " << cli::one_line(error) << "\n";
  }
  return code;
}
