#include "collect/backends/cpu/memory.hpp"

#include <omp.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <new>
#include <stdexcept>
#include <vector>

#include "collect/backends/cpu/kernels.hpp"
#include "core/random.hpp"

namespace forecost::cpu {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20, gib = std::size_t{1} << 30, page = 2 * mib;
constexpr std::size_t cache_line = 64;
/// A prime, so that rows of an operand do not repeat each other.
constexpr std::size_t pool_size = 1'000'003;

template <class T, class ToFloat>
double sum(std::span<const T> values, ToFloat to_float) {
  std::vector<double> parts(static_cast<std::size_t>(omp_get_max_threads()), 0.0);
  split(values.size(), [&](std::size_t thread, std::size_t begin, std::size_t end) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::size_t i = begin; i < end; ++i) total += static_cast<double>(to_float(values[i]));
    parts[thread] = total;
  });
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

/// A value that depends on all bytes.
std::uint64_t read_all(std::span<const std::uint64_t> words) {
  std::vector<std::uint64_t> parts(static_cast<std::size_t>(omp_get_max_threads()), 0);
  split(words.size(), [&](std::size_t thread, std::size_t begin, std::size_t end) {
    std::uint64_t total = 0;
#pragma omp simd reduction(+ : total)
    for (std::size_t i = begin; i < end; ++i) total += words[i];
    parts[thread] = total;
  });
  std::uint64_t total = 0;
  for (const std::uint64_t part : parts) total += part;
  return total;
}

#if defined(__x86_64__)
bool has_clflushopt() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 23U)) != 0;
  }();
  return has;
}

__attribute__((target("clflushopt"))) void evict(std::span<const std::byte> bytes, bool unordered) {
  for (std::size_t i = 0; i < bytes.size(); i += cache_line) {
    auto* line = const_cast<std::byte*>(bytes.data() + i);
    if (unordered) {
      _mm_clflushopt(line);
    } else {
      _mm_clflush(line);
    }
  }
  _mm_mfence();  // the lines are gone before the sample begins
}
#else
bool has_clflushopt() { return false; }
void evict(std::span<const std::byte>, bool) {}
#endif

}  // namespace

Arena::~Arena() { release(); }

void Arena::release() noexcept {
  if (base_ != nullptr) munmap(base_, capacity_);
  base_ = nullptr;
  capacity_ = used_ = room_ = 0;
}

void Arena::reset(std::size_t bytes) {
  if (bytes > capacity_) {
    release();
    // A quarter more than asked for, so that slowly growing cases do not each start anew.
    const std::size_t capacity = (bytes + bytes / 4 + page) / page * page;
    void* memory =
        mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    madvise(memory, capacity, MADV_HUGEPAGE);  // advice: without it things are slower, not wrong
    base_ = static_cast<std::byte*>(memory);
    capacity_ = capacity;
  }
  used_ = 0;
  room_ = bytes;
}

void* Arena::take(std::size_t bytes) {
  const std::size_t size = padded(bytes);
  if (size > room_ - used_) throw std::logic_error("the arena was made too small for its case");
  void* memory = base_ + used_;
  used_ += size;
  return memory;
}

void Arena::trim() {
  if (capacity_ > gib) madvise(base_ + gib, capacity_ - gib, MADV_DONTNEED);
}

RandomPool::RandomPool() : values_(std::make_unique<float[]>(pool_size)) {
  Random random(1);
  for (std::size_t i = 0; i < pool_size; ++i) {
    values_[i] = static_cast<float>(random.uniform(-1, 1));
  }
}

void RandomPool::fill(std::span<float> values, float scale, std::uint64_t seed) const {
  const std::size_t offset = mix64(seed) % pool_size;
  split(values.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
    std::size_t from = (offset + begin) % pool_size;
    while (begin < end) {
      const std::size_t run = std::min(end - begin, pool_size - from);
      for (std::size_t i = 0; i < run; ++i) values[begin + i] = scale * values_[from + i];
      begin += run;
      from = 0;
    }
  });
}

std::span<const float> RandomPool::values() const { return {values_.get(), pool_size}; }

double sum_f32(std::span<const float> values) {
  return sum(values, [](float value) { return value; });
}

double sum_bf16(std::span<const std::uint16_t> values) {
  return sum(values, [](Bf16 value) { return load(value); });
}

Flush::Means Flush::best() {
#if defined(__x86_64__)
  return Means::evict_lines;
#else
  return Means::read_buffer;
#endif
}

void Flush::resize(double bytes) {
  if (means_ == Means::evict_lines) return;
  const double size = std::clamp(bytes, 8.0 * mib, 256.0 * mib);
  buffer_.assign(static_cast<std::size_t>(size) / sizeof(std::uint64_t), 1);
  buffer_.shrink_to_fit();
}

void Flush::operator()(std::span<const std::byte> operands) {
  if (means_ == Means::evict_lines) {
    const bool unordered = has_clflushopt();
    split(operands.size(), [&](std::size_t, std::size_t begin, std::size_t end) {
      evict(operands.subspan(begin, end - begin), unordered);
    });
  } else {
    sink_ = read_all(buffer_);
  }
}

double Flush::bytes(std::span<const std::byte> operands) const {
  return static_cast<double>(means_ == Means::evict_lines ? operands.size()
                                                          : buffer_.size() * sizeof(std::uint64_t));
}

std::string_view Flush::name() const {
  if (means_ == Means::read_buffer) return "read";
  return has_clflushopt() ? "clflushopt" : "clflush";
}

}  // namespace forecost::cpu
