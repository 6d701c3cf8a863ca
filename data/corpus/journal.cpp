#include "data/corpus/journal.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "data/corpus/frames.hpp"
#include "data/corpus/records.hpp"

namespace forecost {

namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw EnvironmentError(fmt::format("{}: {}: {}", file.string(), what, std::strerror(errno)));
}

}  // namespace

Journal::Journal(const std::filesystem::path& file)
    : file_(file),
      fd_(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666)),
      last_sync_(std::chrono::steady_clock::now()) {
  if (fd_ < 0) fail(file_, "the journal cannot be created");
  try {
    // The name must survive a power failure as the rows do.
    sync_path(file_.has_parent_path() ? file_.parent_path() : std::filesystem::path("."));
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Journal::~Journal() {
  if (fd_ < 0) return;
  ::fdatasync(fd_);
  ::close(fd_);
}

void Journal::append(const Device& device) {
  append_record(static_cast<char>(RecordKind::device), encode(device));
}
void Journal::append(const Environment& environment) {
  append_record(static_cast<char>(RecordKind::environment), encode(environment));
}
void Journal::append(const GangRecord& group) {
  append_record(static_cast<char>(RecordKind::group), encode(group));
}

void Journal::append(const SweepRecord& sweep) {
  append_record(static_cast<char>(RecordKind::sweep), encode(sweep));
}
void Journal::append(const Run& run) {
  append_record(static_cast<char>(RecordKind::run), encode(run));
}
void Journal::append(const Measurement& row) {
  append_record(static_cast<char>(RecordKind::row), encode(row));
}

void Journal::append_record(char kind, const std::string& payload) {
  if (fd_ < 0) {
    throw EnvironmentError(fmt::format("{}: closed after an earlier failure", file_.string()));
  }
  const std::string bytes = frame(kind, payload);
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(fd_, bytes.data() + written, bytes.size() - written);
    if (n > 0) {
      written += static_cast<std::size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : ENOSPC;
    // Half a record inside a journal would be damage: take it back, or write no more.
    const off_t end = ::lseek(fd_, 0, SEEK_END);
    if (written > 0 && (end < 0 || ::ftruncate(fd_, end - static_cast<off_t>(written)) != 0)) {
      ::close(fd_);
      fd_ = -1;
    }
    errno = error;
    fail(file_, "a row could not be written, earlier ones are safe");
  }
  if (std::chrono::steady_clock::now() - last_sync_ >= std::chrono::seconds(1)) sync();
}

void Journal::sync() {
  last_sync_ = std::chrono::steady_clock::now();
  if (fd_ < 0) return;
  // Some FUSE and network file systems cannot sync; the kernel has the rows all the same.
  if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) {
    fail(file_, "the journal cannot be synced");
  }
}

Corpus read_journal(const std::filesystem::path& file, std::vector<std::string>* damage) {
  Corpus corpus;
  const std::string name = file.string();
  const auto record = [&](char kind, std::string_view payload, std::size_t offset) {
    try {
      decode_into(corpus, kind, payload, fmt::format("{}: record at byte {}", name, offset));
    } catch (const DataError& error) {
      if (damage == nullptr) throw;
      damage->emplace_back(error.what());
    }
  };
  std::function<void(const std::string&)> tell;
  if (damage != nullptr) tell = [&](const std::string& line) { damage->push_back(line); };
  for_each_frame(read_text(file), name, record, tell);
  return corpus;
}

}  // namespace forecost
