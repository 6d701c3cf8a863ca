#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/state.hpp"
#include "tests/cuda/standin/work.hpp"

// NCCL: libnccl.so.2. The ranks of a communicator are processes of one machine, which share a file
// that the unique id names. Nobody locks there: each rank writes only what is its own, publishes it
// by an atomic count and waits by looking at the others'. So one that is killed holds up nothing
// but the collectives that it does not take part in, as with the real one.

namespace forecost::standin {
namespace {

constexpr int most_ranks = 32;
/// Of a rank's part in a collective; more takes its time and leaves zeros.
constexpr std::size_t most_bytes = 32 << 20;

enum class Kind : std::int32_t { all_reduce, broadcast };

/// What a rank asks of a collective, and what all have to agree in.
struct Asked {
  Kind kind;
  std::int32_t type, operation, root;
  std::uint64_t count;
  friend bool operator==(const Asked&, const Asked&) = default;
};

/// A rank's part of the shared file, which begins as zeros.
struct Member {
  std::atomic<std::uint32_t> joined;
  std::int32_t ranks;
  char uuid[64], node[64], pci[32];
  Model model;
  // Of the collective with the number `arrived`:
  Asked asked;
  double reached_s, slowdown;
  bool has_data;
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::uint64_t> done;  ///< number of the last whose results it has
};

struct Shared {
  std::array<Member, most_ranks> members;
};
constexpr std::size_t data_begin = (sizeof(Shared) + 4095) / 4096 * 4096;

/// The file, mapped.
class Meeting {
 public:
  /// nullptr where that fails.
  static std::shared_ptr<Meeting> open(const std::string& path, int ranks) {
    const std::size_t bytes = data_begin + static_cast<std::size_t>(ranks) * most_bytes;
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return nullptr;
    // Longer for each: the same for all, where they agree in their number. Its pages come when they
    // are written to.
    void* memory = MAP_FAILED;
    struct stat found {};
    if (fstat(file, &found) == 0 && (static_cast<std::size_t>(found.st_size) >= bytes ||
                                     ftruncate(file, static_cast<off_t>(bytes)) == 0))
      memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) return nullptr;
    return std::shared_ptr<Meeting>(new Meeting(path, memory, bytes));
  }
  ~Meeting() { munmap(memory_, bytes_); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Member& member(int rank) {
    return static_cast<Shared*>(memory_)->members[static_cast<std::size_t>(rank)];
  }
  std::byte* data(int rank) {
    return static_cast<std::byte*>(memory_) + data_begin +
           static_cast<std::size_t>(rank) * most_bytes;
  }
  /// Those who have it mapped need no name.
  void forget_name() const { unlink(path_.c_str()); }

 private:
  Meeting(std::string path, void* memory, std::size_t bytes)
      : path_(std::move(path)), memory_(memory), bytes_(bytes) {}
  std::string path_;
  void* memory_;
  std::size_t bytes_;
};

struct Launch {
  cudaStream_t stream;
  std::function<void()> run;
};

struct Comm {
  std::shared_ptr<Meeting> meeting;
  int rank = 0, ranks = 1, device = 0;
  bool blocking = true;
  bool complete = false;  ///< all have joined
  bool finalized = false;
  bool gone = false;  ///< destroyed or aborted
  /// What ncclCommGetAsyncError is to answer: success, or an error for ever.
  ncclResult_t result = ncclSuccess;
  /// Non-blocking: what is to be put on streams yet, once it was asked for.
  std::vector<Launch> launches;
  bool asked_for = false;
  std::uint64_t last = 0;  ///< number of the last collective that was put on a stream
  int outstanding = 0;     ///< of these, not done yet
  /// Held by each collective that lives in a captured graph.
  std::shared_ptr<int> in_graphs = std::make_shared<int>();
  bool in_progress() const { return !complete || !launches.empty(); }
};

struct Group {
  int depth = 0;
  std::vector<std::function<ncclResult_t()>> ends;  ///< what the end of the group is to do
};

struct Tables {
  Handles<ncclComm_t, Comm> comms{"NCCL communicator"};
  Group group;
  std::string last_error;
  std::set<std::string> used;  ///< unique ids
};
Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

ncclResult_t failed(ncclResult_t result, const std::string& words) {
  tables().last_error = words;
  return result;
}
ncclResult_t mistake(const std::string& words) {
  violation("nccl", std::string(state().call) + ": " + words);
  return failed(ncclInvalidArgument, words);
}

void copy_text(char* to, std::size_t room, const std::string& text) {
  std::snprintf(to, room, "%s", text.c_str());
}

// --- joining ---

/// Whether all are there; the first time they are it looks at them.
bool all_joined(Comm& comm) {
  if (comm.complete || comm.gone) return true;
  for (int rank = 0; rank < comm.ranks; ++rank)
    if (comm.meeting->member(rank).joined.load(std::memory_order_acquire) == 0) return false;
  comm.complete = true;
  comm.meeting->forget_name();
  for (int rank = 0; rank < comm.ranks && comm.result == ncclSuccess; ++rank) {
    const Member& one = comm.meeting->member(rank);
    if (one.ranks != comm.ranks) {
      comm.result =
          mistake("rank " + std::to_string(rank) + " counts " + std::to_string(one.ranks) +
                  " ranks, this one " + std::to_string(comm.ranks));
    }
    for (int other = 0; other < rank; ++other) {
      const Member& two = comm.meeting->member(other);
      if (std::strcmp(one.uuid, two.uuid) == 0 && std::strcmp(one.node, two.node) == 0)
        comm.result =
            failed(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(other) +
                                         " and rank " + std::to_string(rank) +
                                         " both on CUDA device " + one.pci);
    }
  }
  return true;
}

ncclResult_t join(const std::string& path, int ranks, int rank, bool blocking, ncclComm_t* handle,
                  std::shared_ptr<Comm>& comm) {
  State& all = state();
  *handle = nullptr;
  if (ranks < 1 || ranks > most_ranks || rank < 0 || rank >= ranks)
    return mistake("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  if (path.find("forecost-nccl-") == std::string::npos)
    return mistake("a unique id that ncclGetUniqueId did not make");
  if (all.config.driver_version == 0 || all.visible.empty() || all.sticky != cudaSuccess)
    return failed(ncclUnhandledCudaError, "no usable device");
  if (unsupported("nccl")) return failed(ncclSystemError, "nccl is not to be supported");
  if (!tables().used.insert(path + " " + std::to_string(rank)).second)
    return mistake("this rank used this unique id already");
  const auto meeting = Meeting::open(path, ranks);
  if (meeting == nullptr) return failed(ncclSystemError, path + " cannot be opened");
  Member& own = meeting->member(rank);
  Comm made;
  made.meeting = meeting;
  made.rank = rank;
  made.ranks = ranks;
  made.device = all.current;
  made.blocking = blocking;
  own.ranks = ranks;
  own.model = all.device().model;
  copy_text(own.uuid, sizeof own.uuid, all.device().uuid);
  copy_text(own.node, sizeof own.node, all.config.node);
  copy_text(own.pci, sizeof own.pci, all.device().pci);
  if (all.config.faults.nccl_init_silent_rank != rank &&
      own.joined.exchange(1, std::memory_order_acq_rel) != 0)
    return failed(ncclInvalidUsage, "two processes are rank " + std::to_string(rank));
  *handle = tables().comms.make(std::move(made));
  comm = tables().comms.find(*handle);
  return ncclSuccess;
}

/// The second half of a blocking communicator's beginning.
ncclResult_t wait_for_all_ranks(ncclComm_t* handle, const std::shared_ptr<Comm>& comm) {
  wait_until([&] { return all_joined(*comm); },
             "not all ranks of the communicator have come to " + std::string(state().call));
  if (comm->result == ncclSuccess) return ncclSuccess;
  tables().comms.release(*handle);
  *handle = nullptr;
  return comm->result;
}

ncclResult_t begin(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, bool blocking) {
  std::shared_ptr<Comm> comm;
  const std::string path(id.internal, strnlen(id.internal, sizeof id.internal));
  const ncclResult_t result = join(path, ranks, rank, blocking, handle, comm);
  if (result != ncclSuccess) return result;
  if (!blocking) return ncclInProgress;
  if (tables().group.depth == 0) return wait_for_all_ranks(handle, comm);
  tables().group.ends.push_back([=] { return wait_for_all_ranks(handle, comm); });
  return ncclSuccess;
}

// --- collectives ---

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

/// As a ring does it: each addition is rounded to the type, and where it begins differs by element.
template <class T, class Wide>
void reduce(Meeting& meeting, int ranks, ncclRedOp_t operation, std::size_t count, void* to) {
  for (std::size_t i = 0; i < count; ++i) {
    const int first = static_cast<int>(i * static_cast<std::size_t>(ranks) / count);
    const auto of = [&](int rank) { return reinterpret_cast<const T*>(meeting.data(rank))[i]; };
    T sum = of(first);
    for (int step = 1; step < ranks; ++step) {
      const Wide one = static_cast<Wide>(sum), two = static_cast<Wide>(of((first + step) % ranks));
      sum = static_cast<T>(operation == ncclSum   ? static_cast<Wide>(one + two)
                           : operation == ncclMax ? std::max(one, two)
                                                  : std::min(one, two));
    }
    static_cast<T*>(to)[i] = sum;
  }
}

void reduce(Meeting& meeting, int ranks, const Asked& asked, void* to) {
  const auto operation = static_cast<ncclRedOp_t>(asked.operation);
  const auto with = [&]<class T, class Wide>(T, Wide) {
    reduce<T, Wide>(meeting, ranks, operation, asked.count, to);
  };
  switch (static_cast<ncclDataType_t>(asked.type)) {
    case ncclInt8:
      return with(std::int8_t{}, int{});
    case ncclUint8:
      return with(std::uint8_t{}, unsigned{});
    case ncclInt32:
      return with(std::int32_t{}, std::int64_t{});
    case ncclUint32:
      return with(std::uint32_t{}, std::uint64_t{});
    case ncclInt64:
      return with(std::int64_t{}, std::int64_t{});
    case ncclUint64:
      return with(std::uint64_t{}, std::uint64_t{});
    case ncclFloat16:
      return with(__half{}, float{});
    case ncclBfloat16:
      return with(__nv_bfloat16{}, float{});
    case ncclFloat32:
      return with(float{}, float{});
    default:
      return with(double{}, double{});
  }
}

/// The same for all ranks: the slowest of them, and of their links.
double duration_s(Meeting& meeting, int ranks, std::uint64_t number) {
  const Asked& asked = meeting.member(0).asked;
  const double bytes = static_cast<double>(asked.count) *
                       static_cast<double>(size_of(static_cast<ncclDataType_t>(asked.type)));
  bool several_nodes = false;
  for (int rank = 1; rank < ranks; ++rank)
    if (std::strcmp(meeting.member(rank).node, meeting.member(0).node) != 0) several_nodes = true;
  double seconds = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Member& each = meeting.member(rank);
    const Model& model = each.model;
    double own = 0;
    if (ranks == 1) {
      own = model.kernel_s + 2 * bytes / model.bandwidth;
    } else {
      const double moved =
          asked.kind == Kind::broadcast ? bytes : 2.0 * (ranks - 1) / ranks * bytes;
      own = several_nodes ? model.node_link_latency + moved / model.node_link_bandwidth
                          : model.link_latency + moved / model.link_bandwidth;
    }
    seconds = std::max(seconds, own * each.slowdown * (1 + model.noise * jitter(number)));
  }
  return seconds;
}

std::string words_of(const Asked& asked) {
  return (asked.kind == Kind::all_reduce ? "all-reduce" : "broadcast") + std::string(" of ") +
         std::to_string(asked.count) + " (type " + std::to_string(asked.type) +
         (asked.kind == Kind::all_reduce ? ", operation " + std::to_string(asked.operation)
                                         : ", root " + std::to_string(asked.root)) +
         ")";
}

/// One collective of a rank, from when it was put on a stream to its end.
class Collective {
 public:
  Collective(std::shared_ptr<Comm> comm, Asked asked, const void* from, void* to)
      : comm_(std::move(comm)), asked_(asked), from_(from), to_(to), number_(++comm_->last) {
    ++comm_->outstanding;
  }

  std::optional<double> progress(double reached_s) {
    if (comm_->gone) return end(reached_s);
    if (silenced() || wrong_) return std::nullopt;
    Meeting& meeting = *comm_->meeting;
    if (!contributed_) {
      // Its place for data is free once all have what lay there.
      if (!all(&Member::done, number_ - 1)) return std::nullopt;
      contribute(reached_s);
    }
    if (!all(&Member::arrived, number_)) return std::nullopt;
    double start_s = 0;
    bool has_data = true;
    for (int rank = 0; rank < comm_->ranks; ++rank) {
      const Member& other = meeting.member(rank);
      start_s = std::max(start_s, other.reached_s);
      has_data = has_data && other.has_data;
      if (other.asked == asked_) continue;
      wrong_ = true;
      violation("nccl", "counts differ: rank " + std::to_string(comm_->rank) + " asks for an " +
                            words_of(asked_) + ", rank " + std::to_string(rank) + " for an " +
                            words_of(other.asked));
      return std::nullopt;
    }
    if (!has_data) {
      const Allocation* place = allocation_of(to_);
      if (place == nullptr || place->written || place->poisoned) std::memset(to_, 0, bytes());
    } else if (asked_.kind == Kind::all_reduce) {
      reduce(meeting, comm_->ranks, asked_, to_);
    } else {
      std::memcpy(to_, meeting.data(asked_.root), bytes());
    }
    const double end_s = start_s + duration_s(meeting, comm_->ranks, number_);
    meeting.member(comm_->rank).done.store(number_, std::memory_order_release);
    return end(end_s);
  }

 private:
  std::size_t bytes() const {
    return asked_.count * size_of(static_cast<ncclDataType_t>(asked_.type));
  }
  bool all(std::atomic<std::uint64_t> Member::*count, std::uint64_t least) const {
    for (int rank = 0; rank < comm_->ranks; ++rank)
      if ((comm_->meeting->member(rank).*count).load(std::memory_order_acquire) < least)
        return false;
    return true;
  }
  bool silenced() const {
    const Faults& faults = state().config.faults;
    const auto number = static_cast<std::int64_t>(number_);
    if (faults.nccl_async_error >= 0 && number > faults.nccl_async_error) {
      comm_->result =
          failed(ncclRemoteError, "a remote process exited or there was a network error");
      return true;
    }
    return comm_->rank == faults.nccl_silent_rank && number > faults.nccl_silent_after;
  }
  void contribute(double reached_s) {
    const State& process = state();
    Member& own = comm_->meeting->member(comm_->rank);
    own.asked = asked_;
    own.reached_s = reached_s;
    own.slowdown = process.throttled() ? process.config.faults.slowdown : 1;
    own.has_data = bytes() <= most_bytes &&
                   static_cast<std::int64_t>(bytes()) <= process.config.compute_limit_bytes;
    const bool gives = asked_.kind == Kind::all_reduce || asked_.root == comm_->rank;
    if (own.has_data && gives) std::memcpy(comm_->meeting->data(comm_->rank), from_, bytes());
    own.arrived.store(number_, std::memory_order_release);
    contributed_ = true;
  }
  double end(double end_s) {
    --comm_->outstanding;
    if (Allocation* place = allocation_of(to_)) place->written = true;
    return end_s;
  }

  std::shared_ptr<Comm> comm_;
  Asked asked_;
  const void* from_;
  void* to_;
  std::uint64_t number_;
  bool contributed_ = false, wrong_ = false;
};

/// A communicator that may be called now; nullptr, noted, where it may not.
std::shared_ptr<Comm> ready(ncclComm_t handle) {
  auto comm = tables().comms.find(handle);
  if (!comm) return nullptr;
  if (comm->in_progress()) {
    mistake("the communicator is still ncclInProgress: ask ncclCommGetAsyncError until it is not");
    return nullptr;
  }
  return comm;
}

ncclResult_t enqueue(const char* name, const void* from, void* to, std::size_t count,
                     ncclDataType_t type, ncclRedOp_t operation, Kind kind, int root,
                     ncclComm_t handle, cudaStream_t on) {
  const bool grouped = tables().group.depth > 0;
  const auto comm = grouped ? tables().comms.find(handle) : ready(handle);
  if (!comm) return ncclInvalidArgument;
  if (grouped && !comm->complete) return mistake("the communicator is still ncclInProgress");
  if (comm->finalized) return mistake("after ncclCommFinalize");
  if (comm->result != ncclSuccess) return comm->result;
  if (state().sticky != cudaSuccess) return failed(ncclUnhandledCudaError, "the device failed");
  const std::size_t size = size_of(type);
  if (size == 0 || root < 0 || root >= comm->ranks) return mistake("an unknown type or root");
  if (operation != ncclSum && operation != ncclMax && operation != ncclMin)
    return failed(ncclInvalidArgument, "the stand-in has sums, maxima and minima");
  Stream* stream = stream_of(on);
  if (stream == nullptr) return ncclInvalidArgument;
  if (stream != &state().null_stream && stream->device != comm->device)
    return mistake("the stream is not of the communicator's device");
  if (count == 0) return ncclSuccess;
  const auto *source = static_cast<const std::byte*>(from), *target = static_cast<std::byte*>(to);
  if (from != to && source < target + count * size && target < source + count * size)
    return mistake("sendbuff and recvbuff overlap, but are not the same");
  const Asked asked{kind, type, operation, root, count};
  Work work;
  work.name = name;
  const bool gives = kind == Kind::all_reduce || root == comm->rank;
  if (gives && from != to) work.operands.push_back(reads(from, count * size, "sendbuff"));
  work.operands.push_back(gives && from == to ? updates(to, count * size, "recvbuff")
                                              : writes(to, count * size, "recvbuff"));
  const std::shared_ptr<int> graph_holds = stream->capturing ? comm->in_graphs : nullptr;
  work.collective = [=]() -> Work::Progress {
    (void)graph_holds;
    if (comm->gone)
      violation("nccl", std::string(name) + " of a graph, whose communicator was released");
    return [one = std::make_shared<Collective>(comm, asked, from, to)](double reached_s) {
      return one->progress(reached_s);
    };
  };
  const auto launch = [=] {
    if (submit(on, work) != cudaSuccess) {
      violation("nccl", std::string(name) + ": the stream did not take it");
      comm->result = failed(ncclUnhandledCudaError, "the stream did not take it");
    }
  };
  if (comm->blocking) {
    if (grouped) {
      tables().group.ends.push_back([=] {
        launch();
        return comm->result;
      });
      return ncclSuccess;
    }
    launch();
    return comm->result;
  }
  // It launches from a thread of its own: nobody knows when, until it says so.
  comm->asked_for = false;
  ++stream->unlaunched;
  comm->launches.push_back({on, launch});
  if (grouped) tables().group.ends.push_back([] { return ncclInProgress; });
  return grouped ? ncclSuccess : ncclInProgress;
}

std::vector<Launch> take_launches(Comm& comm) {
  for (const Launch& launch : comm.launches)
    if (Stream* stream = stream_of(launch.stream)) --stream->unlaunched;
  return std::exchange(comm.launches, {});
}

void leave(Comm& comm) {
  comm.gone = true;
  if (!comm.complete) comm.meeting->forget_name();
  progress();
}

/// The real one waits for them, for ever if nobody destroys them.
void check_graphs(const Comm& comm) {
  if (comm.in_graphs.use_count() > 1)
    violation("nccl", std::string(state().call) +
                          " waits for graphs that hold a collective of the "
                          "communicator: destroy them before");
}

/// Nothing of it on a stream any more.
void wait_for_collectives(const Comm& comm) {
  wait_until(
      [&] {
        progress();
        return comm.outstanding == 0;
      },
      "a collective of the communicator does not end");
}

}  // namespace
}  // namespace forecost::standin

using namespace forecost::standin;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const Call call("ncclGetVersion");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  const Call call("ncclGetLastError");
  return tables().last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Call call("ncclGetUniqueId", Call::prepares);
  struct statvfs memory {};
  const bool room = statvfs("/dev/shm", &memory) == 0 &&
                    memory.f_bavail * memory.f_frsize >= (std::uint64_t{1} << 30);
  const std::filesystem::path folder =
      room ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
  std::random_device random;
  char name[64];
  std::snprintf(name, sizeof name, "forecost-nccl-%08x%08x%08x", random(), random(), random());
  const std::string path = (folder / name).string();
  if (path.size() >= sizeof id->internal)
    return failed(ncclSystemError, "the temporary directory's name is too long");
  *id = {};
  std::memcpy(id->internal, path.data(), path.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Call call("ncclCommInitRankConfig", Call::prepares);
  bool blocking = true;
  if (config != nullptr) {
    if (config->size != sizeof *config || config->magic != 0xcafebeef)
      return mistake("a configuration that is not NCCL_CONFIG_INITIALIZER");
    blocking = config->blocking != 0;
  }
  return begin(comm, ranks, id, rank, blocking);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  const Call call("ncclCommInitRank", Call::prepares);
  return begin(comm, ranks, id, rank, true);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  const Call call("ncclCommGetAsyncError");
  const auto comm = tables().comms.find(handle);
  if (!comm) return ncclInvalidArgument;
  progress();
  *result = ncclInProgress;
  if (!all_joined(*comm)) return ncclSuccess;
  if (!comm->launches.empty()) {
    // Asked for once, it is still at it; asked for again, it is done.
    if (!std::exchange(comm->asked_for, true)) return ncclSuccess;
    for (const Launch& launch : take_launches(*comm)) launch.run();
  }
  *result = comm->finalized && comm->outstanding > 0 && comm->result == ncclSuccess ? ncclInProgress
                                                                                    : comm->result;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const Call call("ncclCommFinalize", Call::prepares);
  const auto comm = ready(handle);
  if (!comm) return ncclInvalidArgument;
  if (comm->finalized) return mistake("for the second time");
  comm->finalized = true;
  if (!comm->blocking) return ncclInProgress;
  wait_for_collectives(*comm);
  return comm->result;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const Call call("ncclCommDestroy", Call::prepares);
  const auto comm = ready(handle);
  if (!comm) return ncclInvalidArgument;
  if (!comm->blocking && !comm->finalized)
    violation("nccl", "ncclCommDestroy of a non-blocking communicator without ncclCommFinalize");
  if (!comm->blocking && comm->finalized && comm->outstanding > 0)
    violation("nccl", "ncclCommDestroy before ncclCommFinalize had done");
  check_graphs(*comm);
  wait_for_collectives(*comm);
  leave(*comm);
  tables().comms.release(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const Call call("ncclCommAbort", Call::prepares);
  const auto comm = tables().comms.find(handle);
  if (!comm) return ncclInvalidArgument;
  leave(*comm);
  take_launches(*comm);  // and never makes them
  check_graphs(*comm);
  tables().comms.release(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  const Call call("ncclCommCount");
  const auto comm = ready(handle);
  if (!comm) return ncclInvalidArgument;
  *count = comm->ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  const Call call("ncclCommCuDevice");
  const auto comm = ready(handle);
  if (!comm) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  const Call call("ncclCommUserRank");
  const auto comm = ready(handle);
  if (!comm) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  const Call call("ncclAllReduce");
  return enqueue("ncclAllReduce", from, to, count, type, operation, Kind::all_reduce, 0, comm,
                 stream);
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  const Call call("ncclBroadcast");
  return enqueue("ncclBroadcast", from, to, count, type, ncclSum, Kind::broadcast, root, comm,
                 stream);
}

ncclResult_t ncclGroupStart() {
  const Call call("ncclGroupStart");
  ++tables().group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const Call call("ncclGroupEnd");
  Group& group = tables().group;
  if (group.depth == 0) {
    violation("nccl", "ncclGroupEnd without ncclGroupStart");
    return failed(ncclInvalidUsage, "not in a group");
  }
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const auto& end : std::exchange(group.ends, {}))
    if (const ncclResult_t one = end(); one != ncclSuccess) result = one;
  return result;
}

}  // extern "C"
