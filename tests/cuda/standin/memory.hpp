#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Device memory, which is the host's: poisoned when it is new and small (so that reading what was
// never written gives NaN), gone when it is freed, and with guard bytes behind it.

namespace forecost::standin {

enum class Space { device, pinned_host };

struct Allocation {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  Space space = Space::device;
  bool written = false;  ///< at all; else all zero, or poison
  bool poisoned = false;
  std::string call;  ///< that made it
};

/// nullptr where the device's memory does not suffice or a fault says so.
void* allocate_memory(std::size_t bytes, Space space);
/// false, and noted, where there is no such allocation; nullptr is fine.
bool free_memory(void* memory, Space space);
std::size_t device_bytes_in_use();

/// That holds the address; nullptr where none does.
Allocation* allocation_of(const void* memory);
/// Whether `bytes` from there lie in one living allocation; else it is noted, with `what` they are.
bool check_range(const void* memory, std::size_t bytes, const std::string& what);
/// Notes an overrun once, and repairs the guard.
void check_guard(const Allocation& allocation);
void check_all_guards();

std::vector<std::string> living_allocations();

}  // namespace forecost::standin
