#include "tests/cuda/standin/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/cuda/standin/state.hpp"

namespace forecost::standin {
namespace {

constexpr std::size_t guard_bytes = 256;
constexpr auto guard_value = std::byte{0xa5};
/// Larger ones stay untouched, and so cost nothing until somebody writes to them.
constexpr std::size_t most_poisoned_bytes = 4 << 20;

struct Memory {
  std::map<const std::byte*, Allocation> living;
  /// Ranges that were freed and not given again: begin, end.
  std::map<const std::byte*, const std::byte*> freed;
  std::size_t device_bytes = 0;
};

Memory& all_memory() {
  static auto* all = new Memory;
  return *all;
}

std::size_t mapped_bytes(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  return (bytes + guard_bytes + page - 1) / page * page;
}

}  // namespace

void* allocate_memory(std::size_t bytes, Space space) {
  Memory& all = all_memory();
  State& process = state();
  if (space == Space::device) {
    const Faults& faults = process.config.faults;
    ++process.counts.allocations;
    if (strikes(&Counts::allocations, faults.allocation)) return nullptr;
    if (faults.allocation_above != 0 && faults_begun() &&
        bytes > std::size_t(faults.allocation_above))
      return nullptr;
    if (all.device_bytes + bytes > std::size_t(process.device().memory_bytes)) return nullptr;
  }
  void* mapped = mmap(nullptr, mapped_bytes(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  Allocation made;
  made.memory = static_cast<std::byte*>(mapped);
  made.bytes = bytes;
  made.space = space;
  made.call = process.call;
  made.poisoned = bytes <= most_poisoned_bytes;
  if (made.poisoned) std::memset(made.memory, 0xff, bytes);
  std::memset(made.memory + bytes, static_cast<int>(guard_value), guard_bytes);
  const std::byte* end = made.memory + mapped_bytes(bytes);
  for (auto range = all.freed.begin(); range != all.freed.end();)
    range = range->first < end && made.memory < range->second ? all.freed.erase(range)
                                                              : std::next(range);
  all.living.emplace(made.memory, made);
  if (space == Space::device) all.device_bytes += bytes;
  return mapped;
}

bool free_memory(void* memory, Space space) {
  if (memory == nullptr) return true;
  Memory& all = all_memory();
  const auto found = all.living.find(static_cast<std::byte*>(memory));
  const std::string call = state().call;
  if (found == all.living.end()) {
    const bool again = all.freed.count(static_cast<std::byte*>(memory)) != 0;
    violation(again ? "double free" : "free",
              call + " of memory that " + (again ? "was freed already" : "is no allocation"));
    return false;
  }
  if (found->second.space != space) {
    violation("free", call + " of memory that " + found->second.call + " gave");
    return false;
  }
  check_guard(found->second);
  const std::size_t bytes = found->second.bytes;
  all.freed[found->first] = found->first + mapped_bytes(bytes);
  if (space == Space::device) all.device_bytes -= bytes;
  munmap(memory, mapped_bytes(bytes));
  all.living.erase(found);
  return true;
}

std::size_t device_bytes_in_use() { return all_memory().device_bytes; }

Allocation* allocation_of(const void* memory) {
  Memory& all = all_memory();
  auto next = all.living.upper_bound(static_cast<const std::byte*>(memory));
  if (next == all.living.begin()) return nullptr;
  Allocation& found = std::prev(next)->second;
  const std::size_t offset = static_cast<const std::byte*>(memory) - found.memory;
  return offset < std::max<std::size_t>(found.bytes, 1) ? &found : nullptr;
}

bool check_range(const void* memory, std::size_t bytes, const std::string& what) {
  if (const Allocation* found = allocation_of(memory)) {
    const std::size_t room = found->bytes - (static_cast<const std::byte*>(memory) - found->memory);
    if (bytes <= room) return true;
    violation("overrun", what + " is " + std::to_string(bytes) + " bytes, but only " +
                             std::to_string(room) + " are left of its allocation");
    return false;
  }
  if (bytes == 0 && memory == nullptr) return true;
  const auto* address = static_cast<const std::byte*>(memory);
  for (const auto& [begin, end] : all_memory().freed) {
    if (begin <= address && address < end) {
      violation("use after free", what + " is in memory that was freed");
      return false;
    }
  }
  violation("address", what + (memory == nullptr ? " is nullptr" : " is in no allocation"));
  return false;
}

void check_guard(const Allocation& allocation) {
  std::byte* guard = allocation.memory + allocation.bytes;
  if (std::all_of(guard, guard + guard_bytes, [](std::byte b) { return b == guard_value; })) return;
  violation("overrun", "written behind " + std::to_string(allocation.bytes) + " bytes of " +
                           allocation.call + ", noticed in " + state().call);
  std::memset(guard, static_cast<int>(guard_value), guard_bytes);
}

void check_all_guards() {
  for (const auto& [memory, allocation] : all_memory().living) check_guard(allocation);
}

std::vector<std::string> living_allocations() {
  std::vector<std::string> found;
  for (const auto& [memory, allocation] : all_memory().living)
    found.push_back(std::to_string(allocation.bytes) + " bytes of " + allocation.call);
  return found;
}

}  // namespace forecost::standin
