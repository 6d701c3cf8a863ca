#include "tests/cuda/standin/work.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/state.hpp"

namespace forecost::standin {

double jitter(std::uint64_t counter) {
  counter += 0x9e3779b97f4a7c15;
  counter = (counter ^ (counter >> 30)) * 0xbf58476d1ce4e5b9;
  counter = (counter ^ (counter >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>(counter >> 11) * 0x1p-52 - 1;
}

namespace {

// --- time ---

double duration_s(const Work& work) {
  const State& all = state();
  const Model& model = all.device().model;
  double bytes = work.bytes;
  if (bytes < 0) {
    bytes = 0;
    for (const Operand& operand : work.operands)
      if (operand.access != Access::scratch)
        bytes += static_cast<double>(operand.bytes) * (operand.access == Access::update ? 2 : 1);
  }
  const double rate = work.rate == Rate::f32    ? model.f32_flops
                      : work.rate == Rate::tf32 ? model.tf32_flops
                                                : model.f16_flops;
  double seconds =
      model.kernel_s +
      std::max(work.flops / rate, bytes / (work.bandwidth > 0 ? work.bandwidth : model.bandwidth));
  seconds *= 1 + model.noise * jitter(static_cast<std::uint64_t>(all.counts.launches));
  if (all.throttled()) seconds *= all.config.faults.slowdown;
  return std::max(seconds, work.seconds);
}

bool is_result(const Operand& operand) {
  return operand.access == Access::write || operand.access == Access::update;
}

// --- results that are remembered ---

std::uint64_t hash(const void* memory, std::size_t bytes, std::uint64_t value) {
  const auto* p = static_cast<const unsigned char*>(memory);
  const auto mix = [&](std::uint64_t word) {
    value = (value ^ word) * 0x9ddfea08eb382d69;
    value ^= value >> 47;
  };
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  std::uint64_t rest = bytes;
  for (; bytes > 0; --bytes, ++p) rest = rest << 8 | *p;
  mix(rest);
  return value;
}

class Results {
 public:
  bool recall(std::uint64_t key, const Work& work) {
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    results_.splice(results_.begin(), results_, found->second);
    const char* from = found->second->second.data();
    for (const Operand& operand : work.operands) {
      if (!is_result(operand)) continue;
      std::memcpy(operand.memory, from, operand.bytes);
      from += operand.bytes;
    }
    return true;
  }
  void remember(std::uint64_t key, const Work& work) {
    std::string bytes;
    for (const Operand& operand : work.operands)
      if (is_result(operand)) bytes.append(static_cast<const char*>(operand.memory), operand.bytes);
    bytes_ += bytes.size();
    results_.emplace_front(key, std::move(bytes));
    places_[key] = results_.begin();
    while (bytes_ > most_bytes || results_.size() > 1024) {
      bytes_ -= results_.back().second.size();
      places_.erase(results_.back().first);
      results_.pop_back();
    }
  }

 private:
  static constexpr std::size_t most_bytes = 128 << 20;
  std::list<std::pair<std::uint64_t, std::string>> results_;  ///< the last used first
  std::unordered_map<std::uint64_t, decltype(results_)::iterator> places_;
  std::size_t bytes_ = 0;
};

std::uint64_t key_of(const Work& work) {
  std::uint64_t key = hash(work.parameters.data(), work.parameters.size(), work.name.size());
  key = hash(work.name.data(), work.name.size(), key);
  for (const Operand& operand : work.operands) {
    // Addresses too: operands may overlap, and do in place.
    key = hash(&operand.memory, sizeof operand.memory, key);
    key = hash(&operand.bytes, sizeof operand.bytes, key);
    if (operand.access == Access::read || operand.access == Access::update)
      key = hash(operand.memory, operand.bytes, key);
  }
  return key;
}

// --- the work itself ---

bool check_operands(const Work& work) {
  bool good = true;
  for (const Operand& operand : work.operands) {
    if (operand.any_host_memory && allocation_of(operand.memory) == nullptr) continue;
    if (!check_range(operand.memory, operand.bytes, std::string(operand.name) + " of " + work.name))
      good = false;
  }
  return good;
}

void clear_results(const Work& work) {
  for (const Operand& operand : work.operands) {
    if (!is_result(operand)) continue;
    const Allocation* place = allocation_of(operand.memory);
    // Untouched memory is zero as it is, and need not be made real.
    if (place != nullptr && !place->written && !place->poisoned) continue;
    if (operand.access == Access::update && place != nullptr && place->written) continue;
    std::memset(operand.memory, 0, operand.bytes);
  }
}

void compute(const Work& work) {
  State& all = state();
  double bytes = std::max(work.bytes, 0.0);
  for (const Operand& operand : work.operands) {
    if (operand.access != Access::scratch) bytes += static_cast<double>(operand.bytes);
    // A kernel uses the whole of it; whoever keeps something there is to notice.
    else if (operand.bytes > 0)
      std::memset(static_cast<std::byte*>(operand.memory), 0xff,
                  std::min<std::size_t>(operand.bytes, 4096));
  }
  if (!work.compute) return;
  if (!work.always && (work.flops > all.config.compute_limit_flops ||
                       bytes > static_cast<double>(all.config.compute_limit_bytes))) {
    clear_results(work);
    return;
  }
  for (const Operand& operand : work.operands)
    if (is_result(operand))
      if (Allocation* place = allocation_of(operand.memory)) place->written = true;
  std::optional<std::uint64_t> key;
  if (work.memorable) {
    key = key_of(work);
    static auto* results = new Results;
    if (results->recall(*key, work)) {
      ++all.remembered;
      return;
    }
    work.compute();
    results->remember(*key, work);
  } else {
    work.compute();
  }
  ++all.computed;
}

void run_here(Stream& stream, const Work& work, double since_s) {
  State& all = state();
  if (all.sticky != cudaSuccess) return;
  if (!check_operands(work)) {
    all.sticky = cudaErrorIllegalAddress;  // as launches are: the next call that looks is told
    return;
  }
  stream.end_s = std::max(stream.end_s, since_s) + duration_s(work);
  compute(work);
}

/// What the operands of a work that ran are to be like.
void finish(const Work& work) {
  for (const Operand& operand : work.operands)
    if (const Allocation* place = allocation_of(operand.memory)) check_guard(*place);
  for (const std::string& part : state().config.faults.nan) {
    if (work.name.find(part) == std::string::npos) continue;
    for (const Operand& operand : work.operands)
      if (is_result(operand)) std::memset(operand.memory, 0xff, operand.bytes);
  }
}

/// Streams go on while the host does something else, as those of GPUs do: a peer may wait for it.
void progress_in_background() {
  static auto* wake = new std::condition_variable_any;
  static const bool once = [] {
    std::thread([] {
      State& all = state();
      std::unique_lock guard(all.lock);
      for (;;) {
        wake->wait(guard, [] {
          const std::vector<Stream*> streams = living_streams();
          return std::any_of(streams.begin(), streams.end(),
                             [](const Stream* each) { return !each->pending.empty(); });
        });
        const char* call = std::exchange(all.call, "the work on a stream");
        progress();
        all.call = call;
        guard.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(500));
        guard.lock();
      }
    }).detach();
    return true;
  }();
  (void)once;
  wake->notify_one();
}

}  // namespace

std::vector<Stream*> living_streams() {
  State& all = state();
  std::vector<Stream*> streams{&all.null_stream};
  for (const auto& [id, call] : all.streams.alive())
    streams.push_back(all.streams.find(reinterpret_cast<const void*>(id)).get());
  return streams;
}

void check_launched(const Stream& stream, const std::string& what) {
  if (stream.unlaunched == 0) return;
  violation("nccl", what + " goes before a collective that NCCL was asked for earlier, but that " +
                        "ncclCommGetAsyncError did not yet tell to be on the stream");
}

void put(Stream& stream, std::function<bool(Stream&)> item) {
  if (stream.pending.empty() && item(stream)) return;
  stream.pending.push_back(std::move(item));
  progress_in_background();
}

void progress() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Stream* stream : living_streams())
      while (!stream->pending.empty() && stream->pending.front()(*stream)) {
        stream->pending.pop_front();
        moved = true;
      }
  }
}

void drain(Stream& stream) {
  if (stream.pending.empty()) return;
  wait_until(
      [&] {
        progress();
        return stream.pending.empty();
      },
      "a collective before it on the stream does not end");
}

cudaError_t run(cudaStream_t handle, std::shared_ptr<const Work> work) {
  State& all = state();
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (all.sticky != cudaSuccess) return all.sticky;
  ++all.counts.launches;
  begin_faults_after(work->name);
  if (strikes(&Counts::launches, all.config.faults.sticky_launch)) {
    all.sticky = cudaErrorIllegalAddress;
    return cudaSuccess;
  }
  ++stream->works;
  check_launched(*stream, work->name);
  const double since_s = all.host_s;
  if (!work->collective) {
    put(*stream, [work, since_s](Stream& on) {
      run_here(on, *work, since_s);
      if (state().sticky == cudaSuccess) finish(*work);
      return true;
    });
    return cudaSuccess;
  }
  put(*stream, [work, since_s, next = work->collective(), reached = false](Stream& on) mutable {
    if (!std::exchange(reached, true) && !check_operands(*work))
      state().sticky = cudaErrorIllegalAddress;
    if (state().sticky != cudaSuccess) return true;
    const std::optional<double> end_s = next(std::max(on.end_s, since_s));
    if (!end_s) return false;
    on.end_s = *end_s;
    finish(*work);
    return true;
  });
  return cudaSuccess;
}

cudaError_t submit(cudaStream_t handle, Work work) {
  State& all = state();
  if (all.sticky != cudaSuccess) return all.sticky;
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  all.host_s += all.device().model.launch_s;
  if (stream->capturing) {
    check_launched(*stream, work.name);
    if (!check_operands(work)) stream->capture_spoilt = true;
    stream->captured.works.push_back(std::make_shared<const Work>(std::move(work)));
    return cudaSuccess;
  }
  return run(handle, std::make_shared<const Work>(std::move(work)));
}

}  // namespace forecost::standin
