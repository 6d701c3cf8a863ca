#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

// Memory of the measured cases, and what walks over it on all threads of the team.

namespace forecost::cpu {

/// Memory for one case after another. Pages stay with the process between cases: taking them anew
/// from the kernel would take longer than most cases do. Not for use by several threads.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Makes room for `bytes` in all; what was taken before is gone. Throws std::bad_alloc.
  void reset(std::size_t bytes);
  /// 64-byte aligned. Throws std::logic_error beyond what reset() made room for.
  void* take(std::size_t bytes);
  /// Gives pages beyond the first GiB back to the system.
  void trim();

  std::size_t capacity() const { return capacity_; }
  /// Space that `bytes` take, alignment included.
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  void release() noexcept;
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0, room_ = 0;
};

/// Uniform values in [-1, 1) from a pool that is made once; a seed picks where in the pool an
/// operand begins. Constant or few-bit operands run faster than real ones do (MEASURING.md rule
/// 10).
class RandomPool {
 public:
  RandomPool();
  void fill(std::span<float> values, float scale, std::uint64_t seed) const;

 private:
  std::unique_ptr<float[]> values_;
};

/// Sums in a fixed order for a fixed number of threads; NaN or infinite if any element is.
double sum_f32(std::span<const float> values);
double sum_bf16(std::span<const std::uint16_t> values);

/// Reads all of it on all threads: evicts what the caches held, and leaves no dirty lines behind,
/// whose write-back would be charged to the next sample. Returns a value that depends on all bytes.
std::uint64_t read_all(std::span<const std::uint64_t> words);

}  // namespace forecost::cpu
