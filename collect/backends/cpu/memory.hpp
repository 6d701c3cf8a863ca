#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

// Memory of the measured cases, and what walks over it on all threads of the team.

namespace forecost::cpu {

/// The clock of all timings here: steady, in seconds.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
  /// What was taken since reset().
  std::span<const std::byte> taken() const { return {base_, used_}; }
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
  std::span<const float> values() const;

 private:
  std::unique_ptr<float[]> values_;
};

/// Sums in a fixed order for a fixed number of threads; NaN or infinite if any element is.
double sum_f32(std::span<const float> values);
double sum_bf16(std::span<const std::uint16_t> values);

/// How operands leave the caches before a cold sample. Where the CPU has an instruction for it,
/// their own cache lines are evicted: that is exact, and takes 30 us for 1 MB. Elsewhere a buffer
/// is read that is larger than the caches, which takes milliseconds, and how much of the operands
/// it leaves there changes from run to run (two sweeps of one machine differed by 20 % in their
/// cold times).
class Flush {
 public:
  enum class Means { evict_lines, read_buffer };
  /// evict_lines wherever the CPU can.
  static Means best();
  explicit Flush(Means means = best()) : means_(means) {}

  /// Bytes to read: at least twice the caches, within [8 MiB, 256 MiB] (MEASURING.md rule 4).
  /// Without effect where lines are evicted.
  void resize(double bytes);
  /// On all threads. Leaves no dirty lines behind, whose write-back would be charged to the sample.
  void operator()(std::span<const std::byte> operands);
  /// Bytes that a flush of these operands walks over.
  double bytes(std::span<const std::byte> operands) const;
  /// For the environment of a corpus: "clflushopt", "clflush" or "read".
  std::string_view name() const;

 private:
  Means means_;
  std::vector<std::uint64_t> buffer_;
  volatile std::uint64_t sink_ = 0;  ///< keeps the reads from being optimised away
};

}  // namespace forecost::cpu
