#pragma once

#include <cstddef>
#include <new>

#include <sys/mman.h>

namespace forecost {

/// For vectors of a gigabyte: asks the kernel for huge pages, since touching every small page for
/// the first time would take longer than all else that is done with the elements. Small vectors are
/// as with std::allocator.
template <class T>
struct HugePageAllocator {
  using value_type = T;
  HugePageAllocator() = default;
  template <class U>
  explicit HugePageAllocator(const HugePageAllocator<U>&) {}

  T* allocate(std::size_t n) {
    if (is_small(n)) return static_cast<T*>(::operator new(n * sizeof(T)));
    void* memory = ::operator new(n * sizeof(T), page);
    // Without huge pages it is slower, no more.
    ::madvise(memory, n * sizeof(T), MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) {
    if (is_small(n)) {
      ::operator delete(memory);
    } else {
      ::operator delete(memory, page);
    }
  }
  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }

 private:
  static constexpr std::align_val_t page{std::size_t{2} << 20};
  static bool is_small(std::size_t n) { return n * sizeof(T) < 4 * static_cast<std::size_t>(page); }
};

}  // namespace forecost
