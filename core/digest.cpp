#include "core/digest.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view previous_mark = "# previous ";
constexpr std::size_t digest_digits = 64;

fs::path with_suffix(const fs::path& file, const char* suffix) {
  fs::path other = file;
  other += suffix;
  return other;
}

/// Held by writers.
fs::path lock_file(const fs::path& file) {
  return file.parent_path() / ("." + file.filename().string() + ".lock");
}

/// What killed writers left; only under the lock, where no other writer lives.
void remove_leftovers(const fs::path& file) {
  std::error_code error;
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const std::string name = file.filename().string();
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string other = entry->path().filename().string();
    if (other.starts_with(name + ".tmp-") || other.starts_with(name + ".sha256.tmp-")) {
      std::error_code ignored;
      fs::remove(entry->path(), ignored);
    }
  }
}

/// The digests that a digest file accepts.
std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> digests;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.starts_with(previous_mark)) line.remove_prefix(previous_mark.size());
    const std::string_view digest = line.substr(0, digest_digits);
    if (digest.size() == digest_digits &&
        digest.find_first_not_of("0123456789abcdef") == std::string_view::npos) {
      digests.emplace_back(digest);
    }
    at = end + 1;
  }
  return digests;
}

bool contains(const std::vector<std::string>& digests, const std::string& digest) {
  return std::find(digests.begin(), digests.end(), digest) != digests.end();
}

}  // namespace

void replace_with_digest(const fs::path& given, std::string_view bytes) {
  const fs::path file = followed(given);
  // Keeps two merges of one moment from listing each other's digest. A stopped process may hold it
  // for ever: after a while we go on without.
  const FileLock lock(lock_file(file), 30);
  if (lock.held()) remove_leftovers(file);
  const fs::path digest_file = with_suffix(file, ".sha256");
  const std::string line = fmt::format("{}  {}\n", sha256_hex(bytes), file.filename().string());
  std::string previous;
  if (fs::exists(file) && fs::exists(digest_file)) {
    const std::string present = sha256_hex_of_file(file);
    if (contains(listed(read_text(digest_file)), present)) {
      previous = fmt::format("{}{}  {}\n", previous_mark, present, file.filename().string());
    }
  }
  replace_file(file, [&](const fs::path& temporary) {
    std::ofstream out(temporary, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      throw EnvironmentError(
          fmt::format("{}: cannot be written: {}", temporary.string(), std::strerror(errno)));
    }
    replace_text(digest_file, line + previous);
  });
  if (!previous.empty()) replace_text(digest_file, line);
}

namespace {

/// `load` takes the file in and returns its digest.
void verify(const fs::path& given, const std::function<std::string()>& load) {
  const fs::path file = followed(given);
  if (fs::exists(file) && !fs::is_regular_file(file)) {
    throw UsageError(fmt::format("{}: expected a file", given.string()));
  }
  const fs::path digest_file = with_suffix(file, ".sha256");
  std::string digests;
  // A writer may have replaced both between our two reads: then we look again while it waits. Where
  // we may not lock, they must at least have changed.
  std::optional<FileLock> lock;
  for (int attempt = 0;; ++attempt) {
    if (attempt == 1) lock.emplace(lock_file(file), 5);
    const std::string digest = load();
    if (!fs::exists(digest_file)) {
      char begin[4] = {};
      std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
      if (std::string_view(begin, sizeof begin) != "\x89HDF") {
        throw DataError(
            fmt::format("{}: not an HDF5 file, so neither corpus nor model", file.string()));
      }
      throw DataError(
          fmt::format("{}: its digest {} is missing: copy it along (for a "
                      "file you trust, 'sha256sum' makes it)",
                      file.string(), digest_file.filename().string()));
    }
    const std::string now = read_text(digest_file);
    if (contains(listed(now), digest)) return;
    if (now == digests || attempt == 5) break;
    digests = now;
  }
  throw DataError(
      fmt::format("{}: its content does not have the digest in {}: it is damaged; restore "
                  "it, or make it again (a corpus: by a merge of its journals)",
                  file.string(), digest_file.filename().string()));
}

}  // namespace

std::string read_verified(const fs::path& file) {
  std::string bytes;
  verify(file, [&] {
    bytes = read_text(file);
    return sha256_hex(bytes);
  });
  return bytes;
}

std::shared_ptr<const OpenFile> open_verified(const fs::path& file, std::string* sha256) {
  std::shared_ptr<const OpenFile> open;
  verify(file, [&] {
    open = std::make_shared<const OpenFile>(file);
    const std::string digest = sha256_hex_of_file(*open);
    if (sha256 != nullptr) *sha256 = digest;
    return digest;
  });
  return open;
}

}  // namespace forecost
