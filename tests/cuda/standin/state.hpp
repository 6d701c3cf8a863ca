#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/standin/config.hpp"
#include "tests/cuda/standin/report.hpp"

// What the libraries of the stand-in share: one state for the process, one lock around each call.

namespace forecost::standin {

/// Kinds of handles, with what lives of each. Addresses are made up, can't be dereferenced and are
/// never given twice, so that one that was released is known for ever.
class HandleTable {
 public:
  explicit HandleTable(const char* kind);
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  const std::string& kind() const { return kind_; }
  const std::map<std::uintptr_t, std::string>& alive() const { return alive_; }

 protected:
  std::uintptr_t add();
  /// Notes a violation where it does not live.
  bool lives(const void* handle) const;
  bool remove(const void* handle);

 private:
  std::string kind_;
  std::map<std::uintptr_t, std::string> alive_;  ///< and the call that made it
  std::uintptr_t last_ = 0;
};

/// Handles of type H, which stand for values of type T.
template <class H, class T>
class Handles : public HandleTable {
 public:
  using HandleTable::HandleTable;
  H make(T value = {}) {
    const std::uintptr_t id = add();
    values_.emplace(id, std::make_shared<T>(std::move(value)));
    return reinterpret_cast<H>(id);
  }
  /// nullptr where it does not live, which is noted.
  std::shared_ptr<T> find(const void* handle) const {
    if (!lives(handle)) return nullptr;
    return values_.at(reinterpret_cast<std::uintptr_t>(handle));
  }
  bool release(const void* handle) {
    if (!remove(handle)) return false;
    values_.erase(reinterpret_cast<std::uintptr_t>(handle));
    return true;
  }

 private:
  std::map<std::uintptr_t, std::shared_ptr<T>> values_;
};

struct Work;

struct Graph {
  std::vector<std::shared_ptr<const Work>> works;
};

struct Stream {
  double end_s = 0;  ///< virtual time at which its work is done
  std::int64_t works = 0;
  int device = 0;        ///< of the visible ones
  bool blocking = true;  ///< waits for the null stream, and that for it
  /// What waits for a collective, or for what is before it here, in order: done where it answers
  /// true. Everything else is done when it is put on the stream.
  std::deque<std::function<bool(Stream&)>> pending;
  /// Collectives that NCCL said to be still in progress of putting here.
  int unlaunched = 0;
  bool capturing = false, capture_spoilt = false;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  Graph captured;
};

/// Of an event, once.
struct Recording {
  bool done = false;  ///< or waits for what was on the stream before it
  double time_s = 0;
};

struct Event {
  bool timed = true;
  bool recorded = false, captured = false;
  std::shared_ptr<Recording> last = std::make_shared<Recording>();
  std::int64_t number = 0;  ///< of the call that recorded it
  cudaStream_t stream = nullptr;
  std::map<cudaStream_t, std::int64_t> works;  ///< of all streams, then
};

/// What must not be between the two events of a sample.
struct Preparation {
  std::int64_t number;
  const char* call;
};

struct Counts {
  std::int64_t allocations = 0, launches = 0, samples = 0;
};

struct State {
  std::recursive_mutex lock;
  Config config;
  std::vector<int> visible;
  int current = 0;  ///< of the visible ones
  bool used = false;

  std::int64_t number = 0;  ///< of calls
  const char* call = "";    ///< that is being answered
  std::deque<Preparation> preparations;
  std::int64_t waited = 0;  ///< number of the last call that waited for the device

  double host_s = 0;  ///< the host's virtual time
  cudaError_t last_error = cudaSuccess;
  cudaError_t sticky = cudaSuccess;
  Counts counts;
  std::int64_t computed = 0, remembered = 0;  ///< results
  /// The counts when Faults::after was seen.
  std::optional<Counts> faults_since;

  Handles<cudaStream_t, Stream> streams{"stream"};
  Handles<cudaEvent_t, Event> events{"event"};
  Handles<cudaGraph_t, Graph> graphs{"graph"};
  Handles<cudaGraphExec_t, Graph> executables{"executable graph"};
  Stream null_stream;
  int depth = 0;  ///< of calls, of the thread that holds the lock

  const Device& device() const { return config.devices.at(visible.at(current)); }
  bool throttled() const;
};

/// Made at the first call, never destroyed: calls may come until the very end of a process.
State& state();

/// One call of an entry point: holds the lock, and has a name for reports.
class Call {
 public:
  enum Nature { plain, prepares };  ///< prepares: must not be between start and stop
  explicit Call(const char* name, Nature nature = plain);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> guard_;
  const char* outer_;
};

/// Notes what must not be between the start and the stop of a sample.
void prepares(const char* what);

/// Lets other threads' calls in between for a moment, which is longer the longer one waited before.
/// For a call that waits.
void breathe(double waited_s);

/// Waits in real time until it answers true; noted and the end of the process after Config::hang_s.
void wait_until(const std::function<bool()>& done, const std::string& what);

/// The stream, of nullptr the null stream; nullptr where it does not live, which is noted.
Stream* stream_of(cudaStream_t handle);

/// As the runtime answers: remembered for cudaGetLastError, and the sticky one instead if there is
/// one.
cudaError_t answer(cudaError_t error);

/// Of a call that queued work: what goes wrong with that is told to a later one.
cudaError_t queued(cudaError_t error);

/// Whether the operation is one of the faults "unsupported".
bool unsupported(const char* operation);

/// Whether faults of Faults::after may happen.
bool faults_begun();
/// Whether a counted fault is to happen: now, and not yet in another process.
bool strikes(std::int64_t Counts::*count, std::int64_t at);
/// Tells of work that runs.
void begin_faults_after(const std::string& work);

}  // namespace forecost::standin
