#include "core/file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw EnvironmentError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

}  // namespace

namespace {

/// A device may never end. A pipe may be `<(sed ... sweep.toml)`.
void refuse_special(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return;  // opening it will say why
  if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode)) return;
  throw UsageError(fmt::format("{}: {}, expected a file", file.string(),
                               S_ISDIR(status.st_mode) ? "a directory" : "a device"));
}

}  // namespace

std::string read_text(const fs::path& file) {
  std::string text;
  std::error_code unknown;  // of a pipe
  if (const auto size = fs::file_size(file, unknown); !unknown) text.reserve(size);
  OpenFile(file).read([&](std::string_view piece) { text += piece; });
  return text;
}

OpenFile::OpenFile(const fs::path& file) : file_(file) {
  refuse_special(file_);
  descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) fail(file_, "cannot be read");
}

OpenFile::~OpenFile() { ::close(descriptor_); }

bool OpenFile::is_replaced() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 && status.st_nlink == 0;
}

void OpenFile::read(const std::function<void(std::string_view)>& piece) const {
  std::string buffer(1 << 20, '\0');
  ::lseek(descriptor_, 0, SEEK_SET);  // a pipe is read once
  while (true) {
    const ssize_t n = ::read(descriptor_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(file_, "cannot be read");
    if (n == 0) return;
    piece(std::string_view(buffer).substr(0, static_cast<std::size_t>(n)));
  }
}

void check_writable(const fs::path& directory) {
  if (std::error_code unknown; !fs::is_directory(directory, unknown)) {
    throw EnvironmentError(
        fmt::format("{}: no such directory: create it, or name another one", directory.string()));
  }
  const fs::path file = directory / fmt::format(".forecost-probe-{}", ::getpid());
  fs::path renamed = file;
  renamed += "-renamed";
  const int fd = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) fail(directory, "files cannot be created there");
  const bool written = ::write(fd, "probe", 5) == 5;
  ::close(fd);
  if (!written) fail(directory, "files cannot be written there");
  if (std::rename(file.c_str(), renamed.c_str()) != 0) {
    fail(directory, "files cannot be renamed there");
  }
  if (::unlink(renamed.c_str()) != 0) fail(directory, "files cannot be deleted there");
}

void check_output(const fs::path& file) {
  if (file.empty()) throw UsageError("the name of the output file is empty");
  if (fs::is_directory(file)) {
    throw UsageError(fmt::format("{}: a directory, expected the name of a file", file.string()));
  }
  if (fs::exists(file) && !fs::is_regular_file(file)) {
    throw UsageError(
        fmt::format("{}: a pipe or device, expected the name of a file", file.string()));
  }
  check_writable(file.has_parent_path() ? file.parent_path() : fs::path("."));
}

namespace {

/// Once for the process: every merge meets the same file system.
void warn_of_no_locks(const fs::path& file, int error) {
  static std::once_flag warned;
  std::call_once(warned, [&] {
    spdlog::warn(
        "{}: locks do not work there ({}): going on without; start no two jobs or merges into one "
        "directory at the same moment",
        file.has_parent_path() ? file.parent_path().string() : ".", std::strerror(error));
  });
}

}  // namespace

FileLock::FileLock(const fs::path& file, double wait_s)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    busy_ = errno == EWOULDBLOCK;
    if (!busy_) warn_of_no_locks(file, errno);
    if (!busy_ || std::chrono::steady_clock::now() >= until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  held_ = true;
  busy_ = false;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), held_(other.held_), busy_(other.busy_) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  held_ = other.held_;
  busy_ = other.busy_;
  return *this;
}

void sync_path(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be opened to sync it");
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some network and FUSE file systems cannot sync a directory; the rename is then as safe as can
  // be.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    errno = error;
    fail(path, "cannot be synced");
  }
}

fs::path followed(const fs::path& file) {
  fs::path at = file;
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(at, error); ++links) {
    const fs::path target = fs::read_symlink(at, error);
    if (error) break;
    at = target.is_absolute() ? target : at.parent_path() / target;
  }
  return at;
}

void replace_file(const fs::path& given, const std::function<void(const fs::path&)>& write) {
  const fs::path file = followed(given);
  fs::path temporary = file;
  temporary += fmt::format(".tmp-{}", ::getpid());
  try {
    write(temporary);
    sync_path(temporary);
    if (std::rename(temporary.c_str(), file.c_str()) != 0) fail(file, "cannot be replaced");
    const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
    sync_path(directory);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

void replace_text(const fs::path& file, std::string_view text) {
  replace_file(file, [&](const fs::path& temporary) {
    std::ofstream out(temporary, std::ios::binary);
    if (!out) fail(temporary, "cannot be written");
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (!out) fail(temporary, "cannot be written");
  });
}

fs::path program_directory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

fs::path configs_directory() {
  if (const char* given = std::getenv("FORECOST_CONFIGS"); given != nullptr && *given != '\0') {
    if (fs::is_directory(given)) return given;
    throw EnvironmentError(fmt::format("FORECOST_CONFIGS={}: no such directory", given));
  }
  const fs::path installed = (program_directory() / FORECOST_INSTALLED_CONFIGS).lexically_normal();
  if (fs::is_directory(installed)) return installed;
  if (fs::is_directory(FORECOST_SOURCE_CONFIGS)) return FORECOST_SOURCE_CONFIGS;
  throw EnvironmentError(
      fmt::format("the shipped configurations are neither in {} nor in {}; set FORECOST_CONFIGS",
                  installed.string(), FORECOST_SOURCE_CONFIGS));
}

std::vector<std::string> shipped_names(std::string_view folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(configs_directory() / folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path shipped_or_file(std::string_view folder, std::string_view kind,
                         std::string_view name_or_file) {
  const auto known = shipped_names(folder);
  if (std::find(known.begin(), known.end(), name_or_file) != known.end()) {
    return configs_directory() / folder / fmt::format("{}.toml", name_or_file);
  }
  if (fs::is_directory(name_or_file)) {
    throw UsageError(fmt::format("{}: a directory, expected a TOML file or a {} by its name",
                                 name_or_file, kind));
  }
  if (fs::exists(name_or_file)) return name_or_file;
  throw UsageError(unknown_name(kind, name_or_file, known) + ", or the path of a TOML file");
}

}  // namespace forecost
