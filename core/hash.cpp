#include "core/hash.hpp"

#include <array>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <zlib.h>

#include "core/error.hpp"
#include "core/file.hpp"

namespace forecost {

namespace {

using Digest = std::array<unsigned char, 32>;

class Sha256 {
 public:
  Sha256()
      : algorithm_(EVP_MD_fetch(nullptr, "SHA256", nullptr), &EVP_MD_free),
        context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    check(algorithm_ != nullptr && context_ != nullptr);
    begin();
  }
  void begin() { check(EVP_DigestInit_ex(context_.get(), algorithm_.get(), nullptr) == 1); }
  void add(std::string_view bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }
  Digest finish() {
    Digest digest{};
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
    return digest;
  }

 private:
  static void check(bool ok) {
    if (!ok) throw std::runtime_error("OpenSSL could not compute a SHA-256 digest");
  }
  std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> algorithm_;
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) { return hex(sha256(bytes)); }

std::string sha256_hex_of_file(const OpenFile& file) {
  Sha256 hash;
  file.read([&](std::string_view piece) { hash.add(piece); });
  return hex(hash.finish());
}

std::string sha256_hex_of_file(const std::filesystem::path& file) {
  return sha256_hex_of_file(OpenFile(file));
}

std::string short_id(std::string_view bytes) { return sha256_hex(bytes).substr(0, 12); }

Hash128 hash128(std::string_view bytes) {
  // Making a context takes longer than hashing a key.
  thread_local Sha256 hash;
  hash.begin();
  hash.add(bytes);
  const Digest digest = hash.finish();
  Hash128 value;
  std::memcpy(&value.low, digest.data(), sizeof value.low);
  std::memcpy(&value.high, digest.data() + sizeof value.low, sizeof value.high);
  return value;
}

std::uint64_t hash64(std::string_view bytes) {
  const Digest digest = sha256(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = value << 8 | digest[i];
  return value;
}

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace forecost
