#include "collect/in_flight.hpp"

#include <cerrno>
#include <cstring>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/file.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

/// Calls visit(run id, whether the rank lives, content) for every such file of a run directory.
template <class Visit>
void for_each_rank(const fs::path& run_directory, Visit visit) {
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(run_directory / "runs", ignored)) {
    for (const auto& entry : fs::directory_iterator(run.path(), ignored)) {
      if (!entry.path().filename().string().starts_with("in-flight-")) continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;
      const bool lives = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      ::close(fd);
      visit(run.path().filename().string(), lives, read_text(entry.path()));
    }
  }
}

}  // namespace

InFlight::InFlight(const fs::path& file, const std::string& device_class, const Shard& shard)
    : fd_(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  const std::string header = fmt::format("{}\n{} {}\n", device_class, shard.index, shard.count);
  header_bytes_ = static_cast<std::int64_t>(header.size());
  if (fd_ < 0 || ::write(fd_, header.data(), header.size()) != header_bytes_) {
    throw EnvironmentError(
        fmt::format("{}: cannot be written: {}", file.string(), std::strerror(errno)));
  }
  // Where the file system has no locks, a living rank of another launch counts as one death, which
  // alone condemns no task.
  ::flock(fd_, LOCK_EX | LOCK_NB);
}

InFlight::~InFlight() {
  end();
  ::close(fd_);
}

// Failures are ignored: what cannot be written here costs a task that kills its process, at worst,
// another launch.
void InFlight::begin(std::string_view task_key) {
  [[maybe_unused]] const auto written =
      ::pwrite(fd_, task_key.data(), task_key.size(), header_bytes_);
}

void InFlight::end() { [[maybe_unused]] const int cleared = ::ftruncate(fd_, header_bytes_); }

std::vector<LivingRank> living_ranks(const fs::path& run_directory) {
  std::vector<LivingRank> living;
  for_each_rank(run_directory, [&](const std::string& run_id, bool lives, const std::string& text) {
    if (!lives) return;
    LivingRank rank{run_id, "", {}};
    std::istringstream lines(text);
    std::getline(lines, rank.device_class);
    if (lines >> rank.shard.index >> rank.shard.count) living.push_back(rank);
  });
  return living;
}

std::map<std::string, int> deaths(const fs::path& run_directory) {
  std::map<std::string, int> found;
  for_each_rank(run_directory, [&](const std::string&, bool lives, const std::string& text) {
    if (lives) return;
    std::istringstream lines(text);
    std::string line, key;
    std::getline(lines, line);
    std::getline(lines, line);
    if (std::getline(lines, key) && !key.empty()) ++found[key];
  });
  return found;
}

}  // namespace forecost
