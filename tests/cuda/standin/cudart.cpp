#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/cuda/standin/kernels.hpp"
#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/state.hpp"
#include "tests/cuda/standin/work.hpp"

// The CUDA runtime: libcudart.so.13 (or 12).

using namespace forecost::standin;

namespace {

/// What every call that needs a device answers where there is none.
cudaError_t availability() {
  const State& all = state();
  if (all.config.driver_version == 0) return cudaErrorInsufficientDriver;
  if (all.config.driver_version / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  return all.visible.empty() ? cudaErrorNoDevice : cudaSuccess;
}

const Device* device_at(int index) {
  const State& all = state();
  if (index < 0 || index >= static_cast<int>(all.visible.size())) return nullptr;
  return &all.config.devices[all.visible[index]];
}

/// 16 bytes of "GPU-xxxxxxxx-xxxx-...".
void parse_uuid(const std::string& text, char* bytes) {
  int digits = 0;
  for (std::size_t i = 4; i < text.size() && digits < 32; ++i) {
    const char c = text[i];
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0) continue;
    bytes[digits / 2] = static_cast<char>((bytes[digits / 2] << 4) | value);
    ++digits;
  }
}

/// A call that the runtime forbids while a stream is captured, in the modes that watch for it.
bool spoils_capture() {
  bool spoilt = false;
  const auto spoil = [&](Stream& stream) {
    if (!stream.capturing || stream.mode == cudaStreamCaptureModeRelaxed) return;
    stream.capture_spoilt = spoilt = true;
  };
  for (Stream* stream : living_streams()) spoil(*stream);
  return spoilt;
}

void wait_for(Stream& stream) {
  State& all = state();
  check_launched(stream, all.call);
  drain(stream);
  all.host_s = std::max(all.host_s, stream.end_s);
  all.waited = all.number;
}

void wait_for_all() {
  for (Stream* stream : living_streams()) wait_for(*stream);
}

/// Between a call on the null stream and what it waits for on others: all but non-blocking ones.
void drain_blocking() {
  for (Stream* stream : living_streams())
    if (stream->blocking) drain(*stream);
}

/// Whoever asks until it is done does so for a while. That takes what is left in a few dozen times,
/// however long it is.
void ask_once(double until_s) {
  State& all = state();
  all.host_s += std::max(1e-6, 0.2 * (until_s - all.host_s));
}

cudaError_t allocate(void** memory, std::size_t bytes, Space space) {
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  if (state().sticky != cudaSuccess) return answer(cudaSuccess);
  if (spoils_capture()) return answer(cudaErrorStreamCaptureUnsupported);
  *memory = nullptr;
  if (bytes == 0) return answer(cudaSuccess);
  *memory = allocate_memory(bytes, space);
  return answer(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t release(void* memory, Space space) {
  if (spoils_capture()) return answer(cudaErrorStreamCaptureUnsupported);
  wait_for_all();
  return answer(free_memory(memory, space) ? cudaSuccess : cudaErrorInvalidValue);
}

bool on_device(const void* memory) {
  const Allocation* place = allocation_of(memory);
  return place != nullptr && place->space == Space::device;
}

Work copy_work(const char* name, void* to, const void* from, std::size_t bytes,
               cudaMemcpyKind kind) {
  const bool to_device = on_device(to), from_device = on_device(from);
  if ((kind == cudaMemcpyHostToDevice && (!to_device || from_device)) ||
      (kind == cudaMemcpyDeviceToHost && (to_device || !from_device)) ||
      (kind == cudaMemcpyDeviceToDevice && (!to_device || !from_device)) ||
      (kind == cudaMemcpyHostToHost && (to_device || from_device)))
    violation("copy", std::string(name) + ": the kind is not that of the addresses");
  Work work;
  work.name = name;
  work.operands = {reads(from, bytes, "source"), writes(to, bytes, "destination")};
  for (Operand& operand : work.operands) operand.any_host_memory = true;
  if (!to_device || !from_device) {
    work.bytes = static_cast<double>(bytes);
    work.bandwidth = state().device().model.host_bandwidth;
  }
  // What the caller's own memory is to hold, or holds, is never left out.
  work.always = allocation_of(to) == nullptr || allocation_of(from) == nullptr;
  work.compute = [=] { std::memmove(to, from, bytes); };
  return work;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
std::vector<Configuration>& configurations() {
  static auto* all = new std::vector<Configuration>;
  return *all;
}

cudaError_t launch(const char* name, dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, void** arguments) {
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  if (name == nullptr) return answer(cudaErrorInvalidDeviceFunction);
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 || shared_bytes > 227 * 1024)
    return answer(cudaErrorInvalidConfiguration);
  return queued(submit(stream, kernel_work(name, grid, block, shared_bytes, arguments)));
}

}  // namespace

extern "C" {

// --- devices ---

cudaError_t cudaGetDeviceCount(int* count) {
  const Call call("cudaGetDeviceCount");
  const cudaError_t error = availability();
  if (error == cudaErrorInsufficientDriver) return answer(error);  // and the count stays as it is
  *count = static_cast<int>(state().visible.size());
  return answer(error);
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Call call("cudaDriverGetVersion");
  *version = state().config.driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const Call call("cudaRuntimeGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  const Call call("cudaSetDevice");
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  if (device_at(index) == nullptr) return answer(cudaErrorInvalidDevice);
  state().current = index;
  return answer(cudaSuccess);
}

cudaError_t cudaGetDevice(int* index) {
  const Call call("cudaGetDevice");
  *index = state().current;
  return answer(availability());
}

cudaError_t cudaSetDeviceFlags(unsigned) { return answer(availability()); }
cudaError_t cudaDeviceReset() { return answer(availability()); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  const Call call("cudaGetDeviceProperties");
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  const Device* device = device_at(index);
  if (device == nullptr) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", device->name.c_str());
  parse_uuid(device->uuid, properties->uuid.bytes);
  properties->totalGlobalMem = static_cast<std::size_t>(device->memory_bytes);
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = 227 * 1024;
  properties->sharedMemPerMultiprocessor = 228 * 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->major = device->capability_major;
  properties->minor = device->capability_minor;
  properties->multiProcessorCount = device->multiprocessors;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->ECCEnabled = device->ecc ? 1 : 0;
  properties->memoryBusWidth = device->bus_width_bits;
  properties->l2CacheSize = static_cast<int>(device->l2_bytes);
  properties->unifiedAddressing = 1;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 3;
  unsigned domain = 0, bus = 0, slot = 0;
  std::sscanf(device->pci.c_str(), "%x:%x:%x", &domain, &bus, &slot);
  properties->pciDomainID = static_cast<int>(domain);
  properties->pciBusID = static_cast<int>(bus);
  properties->pciDeviceID = static_cast<int>(slot);
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  const Call call("cudaDeviceGetAttribute");
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  const Device* device = device_at(index);
  if (device == nullptr) return answer(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 * 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 * 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 * 1024;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrClockRate:
      *value = static_cast<int>(device->clock_hz / 1e3);
      break;
    case cudaDevAttrMemoryClockRate:
      *value = static_cast<int>(device->memory_clock_hz / 1e3);
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = device->multiprocessors;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = device->bus_width_bits;
      break;
    case cudaDevAttrL2CacheSize:
      *value = static_cast<int>(device->l2_bytes);
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = device->capability_major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device->capability_minor;
      break;
    case cudaDevAttrEccEnabled:
      *value = device->ecc ? 1 : 0;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = 32;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = 3;
      break;
    default:
      *value = 0;
  }
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int index) {
  const Call call("cudaDeviceGetPCIBusId");
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  const Device* device = device_at(index);
  if (device == nullptr) return answer(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "%s", device->pci.c_str());
  return answer(cudaSuccess);
}

// --- errors ---

cudaError_t cudaGetLastError() {
  const Call call("cudaGetLastError");
  State& all = state();
  const cudaError_t error = all.sticky != cudaSuccess ? all.sticky : all.last_error;
  all.last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const Call call("cudaPeekAtLastError");
  const State& all = state();
  return all.sticky != cudaSuccess ? all.sticky : all.last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDeviceFunction:
      return "cudaErrorInvalidDeviceFunction";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    default:
      return "unrecognized error code";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return cudaGetErrorName(error);
  }
}

// --- memory ---

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Call call("cudaMalloc", Call::prepares);
  return allocate(memory, bytes, Space::device);
}
cudaError_t cudaFree(void* memory) {
  const Call call("cudaFree", Call::prepares);
  return release(memory, Space::device);
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const Call call("cudaMallocHost", Call::prepares);
  return allocate(memory, bytes, Space::pinned_host);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const Call call("cudaHostAlloc", Call::prepares);
  return allocate(memory, bytes, Space::pinned_host);
}
cudaError_t cudaFreeHost(void* memory) {
  const Call call("cudaFreeHost", Call::prepares);
  return release(memory, Space::pinned_host);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call("cudaMemGetInfo");
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  *total = static_cast<std::size_t>(state().device().memory_bytes);
  *free = *total - std::min(*total, device_bytes_in_use());
  return answer(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Call call("cudaPointerGetAttributes");
  *attributes = {};
  const Allocation* place = allocation_of(memory);
  attributes->type = place == nullptr                ? cudaMemoryTypeUnregistered
                     : place->space == Space::device ? cudaMemoryTypeDevice
                                                     : cudaMemoryTypeHost;
  attributes->device = state().current;
  attributes->devicePointer = const_cast<void*>(memory);
  return answer(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Call call("cudaMemcpyAsync");
  if (bytes == 0) return answer(cudaSuccess);
  Stream* on = stream_of(stream);
  if (on == nullptr) return answer(cudaErrorInvalidResourceHandle);
  Work work = copy_work("cudaMemcpyAsync", to, from, bytes, kind);
  if (!on->capturing && !on->pending.empty()) {
    // What is not pinned is written before the call returns, or read.
    if (allocation_of(to) == nullptr) {
      drain(*on);
    } else if (allocation_of(from) == nullptr) {
      const auto* first = static_cast<const std::byte*>(from);
      work.compute = [to, staged = std::vector(first, first + bytes)] {
        std::memcpy(to, staged.data(), staged.size());
      };
      work.operands.front() = reads(to, bytes, "source");
    }
  }
  return queued(submit(stream, std::move(work)));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Call call("cudaMemcpy", Call::prepares);
  if (spoils_capture()) return answer(cudaErrorStreamCaptureImplicit);
  if (bytes == 0) return answer(cudaSuccess);
  drain_blocking();
  const cudaError_t error = submit(nullptr, copy_work("cudaMemcpy", to, from, bytes, kind));
  State& all = state();
  for (const Stream* stream : living_streams()) all.host_s = std::max(all.host_s, stream->end_s);
  all.waited = all.number;
  return answer(error);
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const Call call("cudaMemsetAsync");
  if (bytes == 0) return answer(cudaSuccess);
  Work work;
  work.name = "cudaMemsetAsync";
  work.operands = {writes(memory, bytes, "destination")};
  work.always = value != 0;  // zeros are what is left where nothing is computed
  work.compute = [=] { std::memset(memory, value, bytes); };
  return queued(submit(stream, std::move(work)));
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  const Call call("cudaMemset");
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}

// --- streams ---

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const Call call("cudaStreamCreateWithFlags", Call::prepares);
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  if (state().sticky != cudaSuccess) return answer(cudaSuccess);
  Stream made;
  made.device = state().current;
  made.blocking = (flags & cudaStreamNonBlocking) == 0;
  *stream = state().streams.make(made);
  return answer(cudaSuccess);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Call call("cudaStreamDestroy", Call::prepares);
  const auto found = state().streams.find(stream);
  if (!found) return answer(cudaErrorInvalidResourceHandle);
  if (!found->pending.empty())
    violation("stream", "destroyed while work on it waits for a collective");
  state().streams.release(stream);
  return answer(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Call call("cudaStreamSynchronize", Call::prepares);
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  if (stream->capturing) {
    stream->capture_spoilt = true;
    return answer(cudaErrorStreamCaptureUnsupported);
  }
  wait_for(*stream);
  return answer(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Call call("cudaStreamQuery");
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  State& all = state();
  check_launched(*stream, all.call);
  progress();
  ask_once(stream->end_s);
  if (!stream->pending.empty() || stream->end_s > all.host_s)
    return all.sticky != cudaSuccess ? all.sticky : cudaErrorNotReady;
  all.waited = all.number;
  return answer(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const Call call("cudaStreamWaitEvent");
  Stream* stream = stream_of(handle);
  const auto waited = state().events.find(event);
  if (stream == nullptr || !waited) return answer(cudaErrorInvalidResourceHandle);
  if (!waited->recorded) return answer(cudaSuccess);
  put(*stream, [last = waited->last](Stream& on) {
    if (last->done) on.end_s = std::max(on.end_s, last->time_s);
    return last->done;
  });
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize() {
  const Call call("cudaDeviceSynchronize", Call::prepares);
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  if (spoils_capture()) return answer(cudaErrorStreamCaptureUnsupported);
  wait_for_all();
  return answer(cudaSuccess);
}

// --- events ---

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Call call("cudaEventCreateWithFlags", Call::prepares);
  if (const cudaError_t error = availability(); error != cudaSuccess) return answer(error);
  if (state().sticky != cudaSuccess) return answer(cudaSuccess);
  Event made;
  made.timed = (flags & cudaEventDisableTiming) == 0;
  *event = state().events.make(made);
  return answer(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Call call("cudaEventDestroy", Call::prepares);
  return answer(state().events.release(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t on, unsigned) {
  const Call call("cudaEventRecord");
  State& all = state();
  const auto event = all.events.find(handle);
  Stream* stream = stream_of(on);
  if (!event || stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  if (all.sticky != cudaSuccess) return answer(cudaSuccess);
  all.host_s += 0.5e-6;
  event->captured = stream->capturing;
  event->recorded = true;
  event->stream = on;
  check_launched(*stream, "an event");
  event->last = std::make_shared<Recording>();
  put(*stream, [last = event->last, since_s = all.host_s](Stream& at) {
    last->time_s = at.end_s = std::max(at.end_s, since_s);
    return last->done = true;
  });
  event->number = all.number;
  event->works.clear();
  event->works[nullptr] = all.null_stream.works;
  for (const auto& [id, made_by] : all.streams.alive()) {
    const auto other = reinterpret_cast<cudaStream_t>(id);
    event->works[other] = all.streams.find(other)->works;
  }
  return answer(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  const Call call("cudaEventSynchronize", Call::prepares);
  State& all = state();
  const auto event = all.events.find(handle);
  if (!event) return answer(cudaErrorInvalidResourceHandle);
  if (event->captured) return answer(cudaErrorCapturedEvent);
  if (event->recorded && !event->last->done) {
    wait_until(
        [&] {
          progress();
          return event->last->done;
        },
        "a collective before the event does not end");
  }
  all.host_s = std::max(all.host_s, event->last->time_s);
  all.waited = all.number;
  return answer(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Call call("cudaEventQuery");
  State& all = state();
  const auto event = all.events.find(handle);
  if (!event) return answer(cudaErrorInvalidResourceHandle);
  progress();
  ask_once(event->last->time_s);
  if (event->recorded && (!event->last->done || event->last->time_s > all.host_s))
    return all.sticky != cudaSuccess ? all.sticky : cudaErrorNotReady;
  all.waited = all.number;
  return answer(cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle,
                                 cudaEvent_t stop_handle) {
  const Call call("cudaEventElapsedTime");
  State& all = state();
  const auto start = all.events.find(start_handle), stop = all.events.find(stop_handle);
  if (!start || !stop) return answer(cudaErrorInvalidResourceHandle);
  if (all.sticky != cudaSuccess) return answer(cudaSuccess);
  if (!start->recorded || !stop->recorded || start->captured || stop->captured || !start->timed ||
      !stop->timed) {
    violation("event", "time asked for between events that were not both recorded to be timed");
    return answer(cudaErrorInvalidResourceHandle);
  }
  if (all.waited < stop->number || !start->last->done || !stop->last->done) {
    violation("event", "time asked for before the stop event was waited for");
    return answer(cudaErrorNotReady);
  }
  ++all.counts.samples;
  *milliseconds = static_cast<float>((stop->last->time_s - start->last->time_s) * 1e3);
  if (start->stream != stop->stream)
    violation("stream", "start and stop were recorded on different streams");
  if (start->number > stop->number) violation("event", "stop was recorded before start");
  std::int64_t here = 0, elsewhere = 0;
  for (const auto& [stream, works] : stop->works) {
    const auto before = start->works.find(stream);
    const std::int64_t between = works - (before == start->works.end() ? 0 : before->second);
    (stream == stop->stream ? here : elsewhere) += between;
  }
  if (here == 0)
    violation("stream", "no work between start and stop on the stream they were recorded on");
  if (elsewhere != 0)
    violation("stream", "work between start and stop on a stream they were not recorded on");
  for (const Preparation& made : all.preparations)
    if (made.number > start->number && made.number < stop->number)
      violation("window", std::string(made.call) + " between start and stop");
  return answer(cudaSuccess);
}

// --- graphs ---

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Call call("cudaStreamBeginCapture", Call::prepares);
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  if (stream->capturing || stream == &state().null_stream)
    return answer(cudaErrorStreamCaptureUnsupported);
  stream->capturing = true;
  stream->capture_spoilt = unsupported("capture");
  stream->mode = mode;
  stream->captured = {};
  return answer(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Call call("cudaStreamEndCapture", Call::prepares);
  Stream* stream = stream_of(handle);
  *graph = nullptr;
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  if (!stream->capturing) return answer(cudaErrorIllegalState);
  check_launched(*stream, "the end of a capture");
  stream->capturing = false;
  if (stream->capture_spoilt) return answer(cudaErrorStreamCaptureInvalidated);
  *graph = state().graphs.make(std::move(stream->captured));
  stream->captured = {};
  return answer(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Call call("cudaStreamIsCapturing");
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return answer(cudaErrorInvalidResourceHandle);
  *status = !stream->capturing       ? cudaStreamCaptureStatusNone
            : stream->capture_spoilt ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
  return answer(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  *mode = cudaStreamCaptureModeGlobal;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t handle,
                                 unsigned long long) {
  const Call call("cudaGraphInstantiate", Call::prepares);
  const auto graph = state().graphs.find(handle);
  if (!graph) return answer(cudaErrorInvalidValue);
  *executable = state().executables.make(*graph);
  return answer(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t) {
  const Call call("cudaGraphUpload", Call::prepares);
  return answer(state().executables.find(handle) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t*, std::size_t* count) {
  const Call call("cudaGraphGetNodes");
  const auto graph = state().graphs.find(handle);
  if (!graph) return answer(cudaErrorInvalidValue);
  *count = graph->works.size();
  return answer(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t on) {
  const Call call("cudaGraphLaunch");
  State& all = state();
  const auto graph = all.executables.find(handle);
  Stream* stream = stream_of(on);
  if (!graph || stream == nullptr) return answer(cudaErrorInvalidValue);
  if (stream->capturing) return answer(cudaErrorStreamCaptureUnsupported);
  all.host_s += all.device().model.launch_s;
  for (const auto& work : graph->works)
    if (const cudaError_t error = run(on, work); error != cudaSuccess) return answer(error);
  return queued(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Call call("cudaGraphDestroy", Call::prepares);
  return answer(state().graphs.release(graph) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Call call("cudaGraphExecDestroy", Call::prepares);
  return answer(state().executables.release(executable) ? cudaSuccess : cudaErrorInvalidValue);
}

// --- kernels ---

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  const Call call("cudaLaunchKernel");
  return launch(kernel_name(function), grid, block, shared_bytes, stream, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function,
                                void** arguments) {
  const Call call("cudaLaunchKernelExC");
  return launch(kernel_name(function), configuration->gridDim, configuration->blockDim,
                configuration->dynamicSmemBytes, configuration->stream, arguments);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  const Call call("cudaFuncSetAttribute", Call::prepares);
  return answer(kernel_name(function) == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const Call call("cudaFuncGetAttributes");
  if (kernel_name(function) == nullptr) return answer(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion =
      10 * state().device().capability_major + state().device().capability_minor;
  return answer(availability());
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function, int block,
                                                                   std::size_t, unsigned) {
  const Call call("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (kernel_name(function) == nullptr) return answer(cudaErrorInvalidDeviceFunction);
  *blocks = std::min(32, 2048 / std::max(1, block));
  return answer(cudaSuccess);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block, std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block,
                                                                shared_bytes, 0);
}

// --- what nvcc's own code calls ---

void** __cudaRegisterFatBinary(void* binary) {
  static void* handle;
  handle = binary;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* device_name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  const Call call("__cudaRegisterFunction");
  register_kernel(host_function, device_name);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                     cudaStream_t stream) {
  const Call call("__cudaPushCallConfiguration");
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream) {
  const Call call("__cudaPopCallConfiguration");
  if (configurations().empty()) return cudaErrorMissingConfiguration;
  const Configuration top = configurations().back();
  configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  const Call call("__cudaLaunchKernel");
  return launch(kernel_name(reinterpret_cast<const void*>(kernel)), grid, block, shared_bytes,
                stream, arguments);
}

}  // extern "C"
