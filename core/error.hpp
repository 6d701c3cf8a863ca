#pragma once

#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace forecost {

/// Exit codes that users and job scripts rely on (docs/exit-codes.md lists them).
enum class ExitCode : int {
  done = 0,
  usage = 2,        ///< usage or configuration
  environment = 3,  ///< world size mismatch, missing or duplicate device, unwritable directory
  data = 4,         ///< corrupt, incompatible or conflicting data
  failures = 5,     ///< finished, but more than 1 % of tasks crashed, failed or timed out
  internal = 70,    ///< a bug of ours, or an aborted MPI job
  stopped = 75,     ///< stopped early on request; resume finishes the work
};

/// A failure with the exit code it ends the program with. The message is one line that says what
/// is wrong, where (file, line), what was expected and what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Wrong usage or configuration: a bad option, sweep, network or device file. Exit code 2.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(ExitCode::usage, message) {}
};

/// The machine is not as needed: MPI world, devices, directories, disk space. Exit code 3.
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(const std::string& message) : Error(ExitCode::environment, message) {}
};

/// Data is corrupt, incompatible or in conflict. Exit code 4.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::data, message) {}
};

/// The one table from exceptions to exit codes: an Error carries its own, std::bad_alloc and
/// std::filesystem::filesystem_error are `environment`, everything else is `internal`.
ExitCode exit_code_of(const std::exception& error) noexcept;

/// "unknown KIND 'NAME'; known: a, b, c" with "did you mean 'x'?" where one name is close.
std::string unknown_name(std::string_view kind, std::string_view name,
                         std::span<const std::string> known);

}  // namespace forecost
