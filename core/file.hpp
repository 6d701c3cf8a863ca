#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace forecost {

/// Creates, writes, renames and deletes a file there, so that hours of work do not end at a
/// read-only directory. Throws EnvironmentError that says which of these failed, and why.
void check_writable(const std::filesystem::path& directory);
/// Finds out before the work that a result cannot be written to `file`. Throws UsageError (a
/// directory, an empty name) or what check_writable() throws.
void check_output(const std::filesystem::path& file);

/// The whole file; throws EnvironmentError("FILE: cannot be read: reason").
std::string read_text(const std::filesystem::path& file);

/// A file held open for reading, whatever its name stands for later. Throws EnvironmentError as
/// read_text().
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& file);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// Whether its name stands for another file by now, or for none.
  bool is_replaced() const;
  /// Calls `piece` with one part of the file after the other, from its beginning.
  void read(const std::function<void(std::string_view piece)>& piece) const;

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
};

/// What a symbolic link stands for, also one that dangles; else the path itself.
std::filesystem::path followed(const std::filesystem::path& file);

/// Replaces `file`, or what it is a link to, so that a reader, or a kill at any instant, sees the
/// old or the new content whole: `write` fills a temporary file beside it, which is then synced and
/// renamed, and the directory synced. Throws EnvironmentError if the directory is unwritable or the
/// disk full; the old file is then untouched and the temporary one gone.
void replace_file(const std::filesystem::path& file,
                  const std::function<void(const std::filesystem::path& temporary)>& write);
void replace_text(const std::filesystem::path& file, std::string_view text);

/// An advisory lock on a file of its own, held until the object or the process ends, on whatever
/// node. Some network mounts have none (errno 37 or 524): then, with one warning of the process,
/// and where another holds it for longer than the wait, held() is false, and `busy()` tells which.
class FileLock {
 public:
  /// Creates the file; waits up to `wait_s` seconds.
  explicit FileLock(const std::filesystem::path& file, double wait_s = 0);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  bool held() const { return held_; }
  bool busy() const { return busy_; }

 private:
  int fd_ = -1;
  bool held_ = false, busy_ = false;
};

/// fsync of a file or directory; throws EnvironmentError.
void sync_path(const std::filesystem::path& path);

/// The folder that this program lies in.
std::filesystem::path program_directory();

/// Where shipped configurations are: $FORECOST_CONFIGS, or share/forecost/configs beside the
/// installed program, or configs/ of the source tree it was built from. Throws EnvironmentError.
std::filesystem::path configs_directory();
/// Names of the shipped files configs/FOLDER/NAME.toml, sorted.
std::vector<std::string> shipped_names(std::string_view folder);
/// The shipped file of that name, else the file at that path. Throws UsageError ("unknown KIND
/// ...") that lists the shipped ones.
std::filesystem::path shipped_or_file(std::string_view folder, std::string_view kind,
                                      std::string_view name_or_file);

}  // namespace forecost
