#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collect/run_directory.hpp"

namespace forecost {

/// A file beside a rank's journal that tells who is measuring what: the rank's class and shard, and
/// the task in hand. It is locked as long as the rank lives, so that no second launch does the same
/// work. A process that dies leaves its task there, so that one that kills its process (a driver's
/// fault, memory) is found out instead of ending every launch. A rank that is asked to stop clears
/// it.
class InFlight {
 public:
  /// Creates the file; throws EnvironmentError.
  InFlight(const std::filesystem::path& file, const std::string& device_class, const Shard& shard);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  void begin(std::string_view task_key);
  void end();

 private:
  int fd_;
  std::int64_t header_bytes_;
};

struct LivingRank {
  std::string run_id, device_class;
  Shard shard;
};
/// Ranks of all launches in RUN_DIR that have not ended. None where the file system has no locks.
std::vector<LivingRank> living_ranks(const std::filesystem::path& run_directory);

/// A task whose process died this often while measuring it is given up as `crashed`. Once may have
/// been chance: a kill from outside, memory that another program took.
inline constexpr int deadly = 2;
/// By task key, how often a process of a launch in RUN_DIR that is over ended while it measured the
/// task.
std::map<std::string, int> deaths(const std::filesystem::path& run_directory);

}  // namespace forecost
