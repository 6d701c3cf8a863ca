#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace forecost {

class OpenFile;

// FILE may be a symbolic link: the digest lies beside what it stands for.

/// Replaces FILE and FILE.sha256 (sha256sum's format) so that at any instant, also of a kill, the
/// file is whole and its digest listed: first the digest file lists the new digest, and the old one
/// as a comment, then the file is replaced, then the comment goes. Writers take turns by a lock, as
/// far as the file system has locks. Throws EnvironmentError.
void replace_with_digest(const std::filesystem::path& file, std::string_view bytes);

/// The bytes of FILE, whose digest FILE.sha256 lists. Throws EnvironmentError if it cannot be read,
/// DataError if the digest is missing or another one.
std::string read_verified(const std::filesystem::path& file);
/// The same, to be read part by part: writers replace a file and never change one in place.
/// `sha256` gets the digest.
std::shared_ptr<const OpenFile> open_verified(const std::filesystem::path& file,
                                              std::string* sha256 = nullptr);

}  // namespace forecost
