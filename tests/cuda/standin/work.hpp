#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// What is put on a stream: a copy, a kernel, a call of a library. It is checked, takes virtual
// time and is computed at once, or recorded while the stream is captured. Only collectives wait,
// for other processes, and with them what follows on their streams.

namespace forecost::standin {

enum class Access { read, write, update, scratch };  ///< scratch: nobody reads it afterwards
enum class Rate { f32, tf32, f16 };

struct Operand {
  void* memory;
  std::size_t bytes;
  Access access;
  const char* name;
  bool any_host_memory = false;  ///< need not be an allocation: of copies
};

inline Operand reads(const void* memory, std::size_t bytes, const char* name) {
  return {const_cast<void*>(memory), bytes, Access::read, name};
}
inline Operand writes(void* memory, std::size_t bytes, const char* name) {
  return {memory, bytes, Access::write, name};
}
inline Operand updates(void* memory, std::size_t bytes, const char* name) {
  return {memory, bytes, Access::update, name};
}

inline Operand scratch(void* memory, std::size_t bytes) {
  return {memory, bytes, Access::scratch, "workspace"};
}

struct Stream;

struct Work {
  std::string name;
  std::vector<Operand> operands;
  double flops = 0;
  Rate rate = Rate::f32;
  /// Of memory traffic; of all operands where it is negative.
  double bytes = -1;
  double bandwidth = 0;  ///< the device's where it is 0
  double seconds = -1;   ///< at least this long, whatever else
  /// All that the results depend on beside the operands' contents. With one, results are
  /// remembered, and the same work on the same contents is not computed again; without, they can
  /// not be: it reads what is not among the operands.
  std::string parameters;
  bool memorable = false;
  bool always = false;  ///< computed beyond the limits of Config, too
  /// Only where it is within the limits of Config; nullptr: nothing but time.
  std::function<void()> compute;
  /// Of a collective: called when it is put on the stream. What it answers is asked, from when the
  /// stream has reached it at `reached_s`, until it tells the virtual time of its end.
  using Progress = std::function<std::optional<double>(double reached_s)>;
  std::function<Progress()> collective;
};

/// As the runtime would answer; does not set the last error.
cudaError_t submit(cudaStream_t stream, Work work);

/// On a stream that is not captured.
cudaError_t run(cudaStream_t handle, std::shared_ptr<const Work> work);

/// Notes what is put on the stream while NCCL is still in progress of putting a collective there.
void check_launched(const Stream& stream, const std::string& what);

/// Done now, if all before it on the stream is and it answers true; else as soon as that is so.
void put(Stream& stream, std::function<bool(Stream&)> item);

/// The null stream too.
std::vector<Stream*> living_streams();

/// Does what can be done of what is pending, on all streams.
void progress();

/// Waits, in real time, until nothing is pending on the stream.
void drain(Stream& stream);

/// In [-1, 1), of a counter.
double jitter(std::uint64_t counter);

}  // namespace forecost::standin
