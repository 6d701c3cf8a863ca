#include "collect/in_flight.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/file.hpp"

namespace forecost {

namespace fs = std::filesystem;

InFlight::InFlight(const fs::path& file)
    : fd_(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (fd_ < 0) {
    throw EnvironmentError(
        fmt::format("{}: cannot be created: {}", file.string(), std::strerror(errno)));
  }
  // Tells others that this rank lives. Where the file system has no locks, a living rank of another
  // job counts as one death, which alone condemns no task.
  ::flock(fd_, LOCK_EX | LOCK_NB);
}

InFlight::~InFlight() {
  end();
  ::close(fd_);
}

// Failures are ignored: what cannot be written here costs a task that kills its process, at worst,
// another launch.
void InFlight::begin(std::string_view task_key) {
  if (::ftruncate(fd_, 0) != 0) return;
  [[maybe_unused]] const auto written = ::pwrite(fd_, task_key.data(), task_key.size(), 0);
}

void InFlight::end() { [[maybe_unused]] const int cleared = ::ftruncate(fd_, 0); }

std::map<std::string, int> deaths(const fs::path& run_directory) {
  std::map<std::string, int> found;
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(run_directory / "runs", ignored)) {
    for (const auto& entry : fs::directory_iterator(run.path(), ignored)) {
      if (!entry.path().filename().string().starts_with("in-flight-")) continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;
      const bool lives = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      ::close(fd);
      if (lives) continue;
      if (std::string key = read_text(entry.path()); !key.empty()) ++found[key];
    }
  }
  return found;
}

}  // namespace forecost
