#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace forecost {

/// The task that a rank is measuring, in a file beside its journal: a process that dies leaves it
/// there, so that a task that kills its process (a driver's fault, memory) is found out instead of
/// killing every launch. A rank that is asked to stop clears it.
class InFlight {
 public:
  /// Creates the file; throws EnvironmentError.
  explicit InFlight(const std::filesystem::path& file);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  void begin(std::string_view task_key);
  void end();

 private:
  int fd_;
};

/// By task key, how often a process of an earlier launch in RUN_DIR ended while it measured the
/// task. Files that a living rank holds (of another job) do not count.
std::map<std::string, int> deaths(const std::filesystem::path& run_directory);

}  // namespace forecost
