#include "cuda/module/communicator.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "cuda/module/capture.hpp"
#include "cuda/module/waiting.hpp"

namespace forecost::cuda {

namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(CommunicatorId));

std::string words_of(ncclResult_t status, ncclComm_t comm) {
  std::string words = ncclGetErrorString(status);
  // What NCCL has to say of the last error; empty or of an older one if it has nothing to say.
  const char* last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0' && words.find(last) == std::string::npos &&
      std::string_view(last).find(words) == std::string_view::npos) {
    words += std::string(" (") + last + ")";
  }
  return words;
}

ncclDataType_t to_nccl(Element element) {
  switch (element) {
    case Element::f32:
      return ncclFloat32;
    case Element::f64:
      return ncclFloat64;
    case Element::i64:
      return ncclInt64;
    case Element::bf16:
      return ncclBfloat16;
    case Element::f16:
      return ncclFloat16;
    case Element::u8:
      return ncclUint8;
  }
  throw Failure(Code::failed, "an unknown element");
}

class AllReducePlan final : public Plan {
 public:
  explicit AllReducePlan(const AllReduce& p)
      : communicator_(*p.communicator),
        count_(p.count),
        element_(p.element),
        token_(device_memory(token_bytes)) {
    Context& context = communicator_.context();
    check(cudaMemsetAsync(token_.get(), 0, token_bytes, context.stream), "cudaMemsetAsync");
    context.wait();
    std::snprintf(info.implementation, sizeof info.implementation, "nccl:allreduce:ranks_%d",
                  communicator_.size());
  }
  /// Ranks come from their hosts some microseconds apart, and the first would count its waiting: a
  /// sum of one number ends on all of them at about the same time.
  void align(Context& /*context*/) override {
    communicator_.all_reduce(token_.get(), token_.get(), 1, Element::f32, Combine::sum);
  }

  /// {source, destination}
  void enqueue(Context&, void* const* tensors, void*) override {
    communicator_.all_reduce(tensors[0], tensors[1], count_, element_, Combine::sum);
  }

 private:
  static constexpr std::int64_t token_bytes = 4;

  Communicator& communicator_;
  std::int64_t count_;
  Element element_;
  DeviceMemory token_;
};

Code code_of(ncclResult_t status) {
  switch (status) {
    case ncclRemoteError:
      return Code::peer_lost;
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return Code::unsupported;
    default:
      return Code::failed;
  }
}

}  // namespace

CommunicatorId new_communicator_id() {
  ncclUniqueId made{};
  if (const ncclResult_t status = ncclGetUniqueId(&made); status != ncclSuccess) {
    throw Failure(Code::failed, "ncclGetUniqueId: " + words_of(status, nullptr));
  }
  CommunicatorId id{};
  std::memcpy(id.bytes, made.internal, sizeof id.bytes);
  return id;
}

Communicator::Communicator(Context& context, const CommunicatorId& id, int rank, int size,
                           double timeout_s)
    : context_(context), rank_(rank), size_(size), timeout_s_(timeout_s) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId unique{};
  std::memcpy(unique.internal, id.bytes, sizeof id.bytes);
  const ncclResult_t status = ncclCommInitRankConfig(&handle_, size, unique, rank, &config);
  settle("opening a communicator", status);
  context_.communicators.push_back(this);
}

Communicator::~Communicator() {
  std::erase(context_.communicators, this);
  if (handle_ == nullptr) return;
  // Finalizing flushes what is on its way, which a lost peer would make endless.
  if (settled(ncclCommFinalize(handle_)) == ncclSuccess) {
    ncclCommDestroy(handle_);
  } else {
    ncclCommAbort(handle_);
  }
}

ncclResult_t Communicator::state() const {
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(handle_, &status);
  return asked == ncclSuccess ? status : asked;
}

ncclResult_t Communicator::settled(ncclResult_t status) const {
  for (Waiting waiting; status == ncclInProgress && waiting.pause() <= timeout_s_;) {
    status = state();
  }
  return status;
}

void Communicator::settle(const char* what, ncclResult_t status) {
  status = settled(status);
  if (status == ncclSuccess) return;
  if (status == ncclInProgress) {
    give_up(Code::peer_lost, std::string(what) + ": no answer from the other ranks within " +
                                 seconds_text(timeout_s_));
  }
  const Code code = code_of(status);
  give_up(code, std::string(what) + (code == Code::peer_lost ? ": another rank is lost: " : ": ") +
                    words_of(status, handle_));
}

void Communicator::give_up(Code code, const std::string& why) {
  for (GraphOwner* owner : context_.graph_owners) owner->drop_graphs();
  if (handle_ != nullptr) ncclCommAbort(handle_);
  handle_ = nullptr;
  throw Failure(code, why);
}

void Communicator::all_reduce(const void* from, void* to, std::int64_t count, Element element,
                              Combine combine) {
  if (handle_ == nullptr) give_up(Code::peer_lost, "all-reduce: the communicator was given up");
  settle("all-reduce",
         ncclAllReduce(from, to, static_cast<std::size_t>(count), to_nccl(element),
                       combine == Combine::sum ? ncclSum : ncclMax, handle_, context_.stream));
}

void Communicator::broadcast(void* memory, std::int64_t bytes, int root) {
  if (handle_ == nullptr) give_up(Code::peer_lost, "broadcast: the communicator was given up");
  settle("broadcast", ncclBroadcast(memory, memory, static_cast<std::size_t>(bytes), ncclUint8,
                                    root, handle_, context_.stream));
}

/// Through device memory and back.
template <class Exchange>
void Communicator::stage(void* values, std::int64_t bytes, Exchange exchange) {
  std::byte* memory = staged_.of(std::max<std::int64_t>(bytes, 1));
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, context_.stream),
          "cudaMemcpyAsync");
  };
  if (bytes > 0) copy(memory, values, cudaMemcpyHostToDevice);
  exchange(memory);
  context_.wait();  // a copy into memory that may be paged waits by itself, and watches nobody
  if (bytes > 0) copy(values, memory, cudaMemcpyDeviceToHost);
  context_.wait();
}

void Communicator::combine(void* values, Element element, std::int64_t count, Combine how) {
  stage(values, count * bytes_of(element),
        [&](void* memory) { all_reduce(memory, memory, count, element, how); });
}

void Communicator::broadcast_host(void* values, std::int64_t bytes, int root) {
  stage(values, bytes, [&](void* memory) { broadcast(memory, bytes, root); });
}

void Communicator::watch(double waited_s) {
  if (handle_ == nullptr) return;
  if (const ncclResult_t status = state(); status != ncclSuccess && status != ncclInProgress) {
    give_up(Code::peer_lost,
            "another rank of the communicator is lost: " + words_of(status, handle_));
  }
  if (waited_s > timeout_s_) {
    give_up(Code::peer_lost, "no answer from the other ranks within " + seconds_text(timeout_s_) +
                                 ": one of them is presumed dead");
  }
}

std::unique_ptr<Plan> plan_all_reduce(Context&, const Primitive& primitive) {
  return std::make_unique<AllReducePlan>(primitive.all_reduce);
}

}  // namespace forecost::cuda
