#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/standin/config.hpp"
#include "tests/cuda/standin/report.hpp"

// The stand-in's NCCL: ranks are processes of their own, which this one forks. It calls nothing of
// the stand-in itself, so that each reads its configuration and looks for leaks at its end.

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

namespace {

using namespace forecost::standin;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

#define GOOD(call) ASSERT_EQ(static_cast<int>(call), 0)

/// What the processes of a test share.
struct Board {
  std::atomic<int> id_made;
  ncclUniqueId id;
  std::atomic<int> step;  ///< of the test, as its ranks agree

  void wait_for(int value) const {
    while (step.load() < value) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

/// One rank, in its own process.
struct Rank {
  int rank, ranks;
  Board& board;
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;
  float* memory = nullptr;
  static constexpr std::size_t count = 1000;

  const ncclUniqueId& id() {
    if (rank == 0 && board.id_made.load() == 0) {
      EXPECT_EQ(ncclGetUniqueId(&board.id), ncclSuccess);
      board.id_made = 1;
    }
    while (board.id_made.load() == 0) std::this_thread::yield();
    return board.id;
  }
  void begin() {
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    GOOD(cudaMalloc(reinterpret_cast<void**>(&memory), count * sizeof(float)));
    fill(static_cast<float>(rank + 1));
  }
  void join() {
    begin();
    GOOD(ncclCommInitRank(&comm, ranks, id(), rank));
  }
  /// Not blocking; whether it was successful in the end is for the test to look at.
  void start_joining() {
    begin();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, ranks, id(), rank, &config), ncclInProgress);
  }
  void fill(float value) {
    const std::vector<float> values(count, value);
    GOOD(cudaMemcpy(memory, values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  }
  float value(std::size_t at = count - 1) {
    float found = -1;
    EXPECT_EQ(cudaMemcpy(&found, memory + at, sizeof found, cudaMemcpyDeviceToHost), cudaSuccess);
    return found;
  }
  ncclResult_t sum(std::size_t elements = count) {
    return ncclAllReduce(memory, memory, elements, ncclFloat32, ncclSum, comm, stream);
  }
  ncclResult_t asked() const {
    ncclResult_t result = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &result), ncclSuccess);
    return result;
  }
  /// What it comes to once it is no longer in progress.
  ncclResult_t settled() const {
    for (;;) {
      if (const ncclResult_t result = asked(); result != ncclInProgress) return result;
      std::this_thread::yield();
    }
  }
  /// Whether the stream stays busy for a while.
  bool stuck() const {
    for (int i = 0; i < 50; ++i) {
      if (cudaStreamQuery(stream) != cudaErrorNotReady) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  bool idle() const {
    for (int i = 0; i < 1000; ++i)
      if (cudaStreamQuery(stream) == cudaSuccess) return true;
    return false;
  }
  void release() {
    GOOD(cudaStreamDestroy(stream));
    GOOD(cudaFree(memory));
  }
  void leave() {
    GOOD(ncclCommDestroy(comm));
    release();
  }
};

struct Ended {
  int status = -1;  ///< 0: no expectation failed
  std::vector<std::string> violations;
};

/// Ranks in processes of their own. `configure` may add to the configuration of one.
std::vector<Ended> run(int ranks, const std::function<void(Rank&)>& body,
                       const json& configuration = json::object(),
                       const std::function<void(int, json&)>& configure = {}) {
  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* board = new (shared) Board{};
  const auto folder =
      std::filesystem::temp_directory_path() / ("forecost-nccl-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    json own = configuration;
    own["report"] = (folder / "report").string();
    if (!own.contains("hang_s")) own["hang_s"] = 20;
    if (!own.contains("devices"))
      own["devices"] = {{{"uuid", "GPU-57a4d14e-0000-4000-8000-00000000000" + std::to_string(rank)},
                         {"model", {{"link_latency", 1e-3}, {"link_bandwidth", 1e6}}}}};
    if (configure) configure(rank, own);
    const std::string path = folder / ("rank" + std::to_string(rank) + ".json");
    std::ofstream(path) << own;
    const pid_t process = fork();
    if (process == 0) {
      alarm(60);
      setenv("FORECOST_STANDIN", path.c_str(), 1);
      Rank one{rank, ranks, *board};
      body(one);
      std::exit(testing::Test::HasFailure() ? 1 : 0);
    }
    processes.push_back(process);
  }
  std::vector<Ended> all;
  for (const pid_t process : processes) {
    Ended ended;
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::ifstream report(folder / ("report-" + std::to_string(process) + ".txt"));
    for (std::string line; std::getline(report, line);)
      if (!line.starts_with("begin:") && !line.starts_with("end:"))
        ended.violations.push_back(line);
    all.push_back(ended);
  }
  if (board->id_made.load() != 0) {
    EXPECT_FALSE(std::filesystem::exists(board->id.internal)) << "the ranks left their file";
  }
  std::filesystem::remove_all(folder);
  munmap(shared, sizeof(Board));
  return all;
}

void expect_clean(int ranks, const std::function<void(Rank&)>& body,
                  const json& configuration = json::object()) {
  for (const Ended& ended : run(ranks, body, configuration)) {
    EXPECT_EQ(ended.status, 0);
    EXPECT_THAT(ended.violations, IsEmpty());
  }
}

/// Each rank's one violation.
void expect_violation(int ranks, const std::string& words, const std::function<void(Rank&)>& body,
                      const json& configuration = json::object()) {
  for (const Ended& ended : run(ranks, body, configuration)) {
    EXPECT_EQ(ended.status, 0);
    EXPECT_THAT(ended.violations, ElementsAre(HasSubstr(words)));
  }
}

class StandinNcclRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Some, StandinNcclRanks, testing::Values(1, 2, 4));

// --- what is right ---

TEST_P(StandinNcclRanks, RanksAddUp) {
  const int n = GetParam();
  expect_clean(n, [n](Rank& my) {
    my.join();
    int number = -1;
    GOOD(ncclCommCount(my.comm, &number));
    EXPECT_EQ(number, n);
    GOOD(ncclCommUserRank(my.comm, &number));
    EXPECT_EQ(number, my.rank);
    GOOD(ncclCommCuDevice(my.comm, &number));
    EXPECT_EQ(number, 0);
    const float total = static_cast<float>(n * (n + 1)) / 2;
    for (int i = 0; i < 30; ++i) {
      my.fill(static_cast<float>((my.rank + 1) * i));
      GOOD(my.sum());
      GOOD(cudaStreamSynchronize(my.stream));
      EXPECT_EQ(my.value(0), total * static_cast<float>(i));
      EXPECT_EQ(my.value(), total * static_cast<float>(i));
    }
    // Many at once, and one after another on the stream: each multiplies by the number of ranks.
    my.fill(1);
    for (int i = 0; i < 6; ++i) GOOD(my.sum());
    GOOD(cudaStreamSynchronize(my.stream));
    EXPECT_EQ(my.value(), std::pow(n, 6));
    my.leave();
  });
}

template <class T>
void expect_sum(Rank& my, ncclDataType_t type) {
  std::vector<T> values{static_cast<T>(my.rank + 1), static_cast<T>(3)};
  GOOD(cudaMemcpy(my.memory, values.data(), sizeof(T) * 2, cudaMemcpyHostToDevice));
  T* to = reinterpret_cast<T*>(my.memory) + 2;
  GOOD(ncclAllReduce(my.memory, to, 2, type, ncclSum, my.comm, my.stream));
  GOOD(cudaStreamSynchronize(my.stream));
  GOOD(cudaMemcpy(values.data(), to, sizeof(T) * 2, cudaMemcpyDeviceToHost));
  EXPECT_EQ(static_cast<float>(values[0]), 3) << "type " << type;
  EXPECT_EQ(static_cast<float>(values[1]), 6) << "type " << type;
  GOOD(ncclAllReduce(my.memory, to, 2, type, ncclMax, my.comm, my.stream));
  GOOD(cudaStreamSynchronize(my.stream));
  GOOD(cudaMemcpy(values.data(), to, sizeof(T) * 2, cudaMemcpyDeviceToHost));
  EXPECT_EQ(static_cast<float>(values[0]), 2) << "type " << type;
}

TEST(StandinNccl, OfEachTypeAndOperation) {
  expect_clean(2, [](Rank& my) {
    my.join();
    expect_sum<float>(my, ncclFloat32);
    expect_sum<double>(my, ncclFloat64);
    expect_sum<__half>(my, ncclFloat16);
    expect_sum<__nv_bfloat16>(my, ncclBfloat16);
    expect_sum<std::int64_t>(my, ncclInt64);
    expect_sum<std::int32_t>(my, ncclInt32);
    expect_sum<std::uint8_t>(my, ncclUint8);
    my.fill(static_cast<float>(my.rank + 1));
    GOOD(ncclBroadcast(my.memory, my.memory, Rank::count, ncclFloat32, 1, my.comm, my.stream));
    GOOD(cudaStreamSynchronize(my.stream));
    EXPECT_EQ(my.value(), 2);
    my.leave();
  });
}

TEST(StandinNccl, WhatIsBeyondTheLimitTakesItsTimeAndLeavesZeros) {
  expect_clean(2,
               [](Rank& my) {
                 my.join();
                 GOOD(my.sum());
                 GOOD(cudaStreamSynchronize(my.stream));
                 EXPECT_EQ(my.value(), 0);
                 my.leave();
               },
               {{"compute_limit_bytes", 1000}});
}

TEST(StandinNccl, ACollectiveIsPendingUntilAllHaveCome) {
  expect_clean(2, [](Rank& my) {
    my.join();
    if (my.rank == 1) {
      my.board.wait_for(1);
      GOOD(my.sum());
      GOOD(cudaStreamSynchronize(my.stream));
    } else {
      cudaEvent_t event = nullptr;
      cudaStream_t other = nullptr;
      GOOD(cudaEventCreate(&event));
      GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
      GOOD(my.sum());
      GOOD(cudaEventRecord(event, my.stream));
      // What follows waits, here and behind the event.
      GOOD(cudaMemsetAsync(my.memory, 0, 4, my.stream));
      GOOD(cudaStreamWaitEvent(other, event, 0));
      GOOD(cudaMemsetAsync(my.memory + 1, 0, 4, other));
      EXPECT_TRUE(my.stuck());
      EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
      EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
      EXPECT_EQ(my.value(0), 1);
      EXPECT_EQ(my.value(1), 1);
      my.board.step = 1;
      GOOD(cudaEventSynchronize(event));
      GOOD(cudaStreamSynchronize(my.stream));
      GOOD(cudaStreamSynchronize(other));
      EXPECT_EQ(my.value(0), 0);
      EXPECT_EQ(my.value(1), 0);
      GOOD(cudaStreamDestroy(other));
      GOOD(cudaEventDestroy(event));
    }
    EXPECT_EQ(my.value(), 3);
    my.leave();
  });
}

TEST(StandinNccl, CopiesBehindACollectiveKeepWhatTheyWereGiven) {
  expect_clean(2, [](Rank& my) {
    my.join();
    if (my.rank == 1) my.board.wait_for(1);
    GOOD(my.sum());
    float from = 7, to = -1;
    GOOD(cudaMemcpyAsync(my.memory, &from, 4, cudaMemcpyHostToDevice, my.stream));
    from = 8;  // it was copied on the way
    EXPECT_EQ(my.value(1), my.rank == 0 ? 1 : 3);
    my.board.step = 1;
    // As it is not pinned, the call waits for the collective.
    GOOD(cudaMemcpyAsync(&to, my.memory + 1, 4, cudaMemcpyDeviceToHost, my.stream));
    EXPECT_EQ(to, 3);
    EXPECT_EQ(my.value(0), 7);
    my.leave();
  });
}

TEST(StandinNccl, ARankThatDoesSomethingElseHoldsUpNobody) {
  expect_clean(2, [](Rank& my) {
    my.join();
    for (int i = 0; i < 3; ++i) GOOD(my.sum());
    // The other is busy elsewhere until this one has them all.
    if (my.rank == 1) my.board.wait_for(1);
    GOOD(cudaStreamSynchronize(my.stream));
    my.board.step = 1;
    EXPECT_EQ(my.value(), 12);
    my.leave();
  });
}

TEST(StandinNccl, AGraphIsACollectiveAtEachLaunch) {
  expect_clean(2, [](Rank& my) {
    my.join();
    GOOD(cudaStreamBeginCapture(my.stream, cudaStreamCaptureModeThreadLocal));
    GOOD(my.sum());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    GOOD(cudaStreamEndCapture(my.stream, &graph));
    GOOD(cudaGraphInstantiate(&executable, graph, 0));
    GOOD(cudaGraphDestroy(graph));
    EXPECT_EQ(my.value(), my.rank + 1) << "it is only captured";
    for (int i = 0; i < 3; ++i) GOOD(cudaGraphLaunch(executable, my.stream));
    GOOD(cudaStreamSynchronize(my.stream));
    EXPECT_EQ(my.value(), 12);
    GOOD(cudaGraphExecDestroy(executable));
    my.leave();
  });
}

/// Virtual seconds of an all-reduce.
double timed_sum(Rank& my) {
  cudaEvent_t start = nullptr, stop = nullptr;
  EXPECT_EQ(cudaEventCreate(&start), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&stop), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(start, my.stream), cudaSuccess);
  EXPECT_EQ(my.sum(), ncclSuccess);
  EXPECT_EQ(cudaEventRecord(stop, my.stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(stop), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, stop), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(stop), cudaSuccess);
  return 1e-3 * milliseconds;
}

TEST(StandinNccl, ItTakesTheTimeOfTheLinksFromWhenTheLastComes) {
  expect_clean(4, [](Rank& my) {
    my.join();
    // 1 ms and 2 * 3/4 * 4000 bytes at 1 MB/s, beside what clocks differ by.
    timed_sum(my);
    EXPECT_NEAR(timed_sum(my), 7e-3, 1e-4);
    if (my.rank == 3) {
      static char function;
      __cudaRegisterFunction(nullptr, &function, nullptr, "_ZN8forecost4cuda11spin_kernelEm", -1,
                             nullptr, nullptr, nullptr, nullptr, nullptr);
      unsigned long nanoseconds = 20'000'000;
      void* arguments[] = {&nanoseconds};
      GOOD(cudaLaunchKernel(&function, dim3(1), dim3(32), arguments, 0, my.stream));
    }
    const double waited_s = timed_sum(my);
    EXPECT_NEAR(waited_s, my.rank == 3 ? 7e-3 : 27e-3, 3e-4);
    my.leave();
  });
}

TEST(StandinNccl, AndThatOfTheNetworkBetweenNodes) {
  const json model{{"link_bandwidth", 1e9},
                   {"link_latency", 0},
                   {"node_link_bandwidth", 1e6},
                   {"node_link_latency", 2e-3}};
  const auto all = run(
      2,
      [](Rank& my) {
        my.join();
        timed_sum(my);
        EXPECT_NEAR(timed_sum(my), 6e-3, 1e-4);
        my.leave();
      },
      json::object(),
      [&](int rank, json& own) {
        own["node"] = "node" + std::to_string(rank);
        own["devices"] = {{{"model", model}}};  // of the same UUID: on another node it is another
      });
  for (const Ended& ended : all) {
    EXPECT_EQ(ended.status, 0);
    EXPECT_THAT(ended.violations, IsEmpty());
  }
}

// --- without blocking ---

TEST(StandinNccl, WithoutBlockingItIsInProgressUntilAllHaveCome) {
  expect_clean(2, [](Rank& my) {
    if (my.rank == 1) my.board.wait_for(1);
    my.start_joining();
    if (my.rank == 0) {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(my.asked(), ncclInProgress);
      my.board.step = 1;
    }
    EXPECT_EQ(my.settled(), ncclSuccess);
    EXPECT_EQ(my.sum(), ncclInProgress);
    EXPECT_EQ(my.asked(), ncclInProgress);
    EXPECT_EQ(my.settled(), ncclSuccess);
    GOOD(cudaStreamSynchronize(my.stream));
    EXPECT_EQ(my.value(), 3);
    GOOD(cudaStreamBeginCapture(my.stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_EQ(my.sum(), ncclInProgress);
    EXPECT_EQ(my.settled(), ncclSuccess);
    cudaGraph_t graph = nullptr;
    GOOD(cudaStreamEndCapture(my.stream, &graph));
    std::size_t nodes = 0;
    GOOD(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(nodes, 1U);
    GOOD(cudaGraphDestroy(graph));
    EXPECT_EQ(ncclCommFinalize(my.comm), ncclInProgress);
    EXPECT_EQ(my.settled(), ncclSuccess);
    my.leave();
  });
}

TEST(StandinNccl, CallingItWhileItIsInProgressIsCaught) {
  expect_violation(1, "still ncclInProgress", [](Rank& my) {
    my.start_joining();
    EXPECT_EQ(my.sum(), ncclInvalidArgument);
    EXPECT_EQ(my.settled(), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(my.comm), ncclInProgress);
    EXPECT_EQ(my.settled(), ncclSuccess);
    my.leave();
  });
}

TEST(StandinNccl, WorkBeforeTheCollectiveIsLaunchedIsCaught) {
  expect_violation(1, "goes before a collective", [](Rank& my) {
    my.start_joining();
    EXPECT_EQ(my.settled(), ncclSuccess);
    EXPECT_EQ(my.sum(), ncclInProgress);
    GOOD(cudaMemsetAsync(my.memory, 0, 4, my.stream));
    EXPECT_EQ(my.settled(), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(my.comm), ncclInProgress);
    EXPECT_EQ(my.settled(), ncclSuccess);
    my.leave();
  });
}

TEST(StandinNccl, DestroyingItWithoutFinalizingIsCaught) {
  expect_violation(1, "without ncclCommFinalize", [](Rank& my) {
    my.start_joining();
    EXPECT_EQ(my.settled(), ncclSuccess);
    my.leave();
  });
}

TEST(StandinNccl, AGroupIsLaunchedAtItsEnd) {
  expect_clean(2, [](Rank& my) {
    my.join();
    GOOD(ncclGroupStart());
    GOOD(my.sum(10));
    GOOD(ncclAllReduce(my.memory + 10, my.memory + 10, 10, ncclFloat32, ncclMax, my.comm,
                       my.stream));
    EXPECT_EQ(cudaStreamQuery(my.stream), cudaSuccess);
    GOOD(ncclGroupEnd());
    GOOD(cudaStreamSynchronize(my.stream));
    EXPECT_EQ(my.value(9), 3);
    EXPECT_EQ(my.value(19), 2);
    my.leave();
  });
}

// --- what does not come ---

TEST(StandinNccl, AbortFreesAStreamWhosePeerWasKilled) {
  const std::vector<Ended> all = run(4, [](Rank& my) {
    my.join();
    GOOD(my.sum());
    GOOD(cudaStreamSynchronize(my.stream));
    if (my.rank == 2) raise(SIGKILL);
    GOOD(my.sum());
    GOOD(cudaMemsetAsync(my.memory, 0, 4, my.stream));
    EXPECT_TRUE(my.stuck());
    EXPECT_EQ(my.asked(), ncclSuccess);
    GOOD(ncclCommAbort(my.comm));
    EXPECT_TRUE(my.idle());
    EXPECT_EQ(my.value(0), 0);
    my.release();
  });
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(all[rank].status, rank == 2 ? 128 + SIGKILL : 0);
    EXPECT_THAT(all[rank].violations, IsEmpty());
  }
}

TEST(StandinNccl, AWaitThatNeverEndsEndsTheProcess) {
  const std::vector<Ended> all = run(2,
                                     [](Rank& my) {
                                       my.join();
                                       if (my.rank == 1) raise(SIGKILL);
                                       GOOD(my.sum());
                                       cudaStreamSynchronize(my.stream);
                                       FAIL() << "it came back";
                                     },
                                     {{"hang_s", 0.2}});
  EXPECT_EQ(all[0].status, hang_status);
  EXPECT_THAT(all[0].violations, ElementsAre(HasSubstr("hang: cudaStreamSynchronize waits")));
}

TEST(StandinNccl, DifferentCountsNeverEnd) {
  expect_violation(2, "nccl: counts differ", [](Rank& my) {
    my.join();
    GOOD(my.sum(Rank::count - static_cast<std::size_t>(my.rank)));
    EXPECT_TRUE(my.stuck());
    my.board.step += 1;
    my.board.wait_for(2);
    GOOD(ncclCommAbort(my.comm));
    EXPECT_TRUE(my.idle());
    my.release();
  });
}

TEST(StandinNccl, TwoRanksOnOneGpuAreRefused) {
  expect_clean(2,
               [](Rank& my) {
                 my.begin();
                 EXPECT_EQ(ncclCommInitRank(&my.comm, my.ranks, my.id(), my.rank),
                           ncclInvalidUsage);
                 EXPECT_EQ(my.comm, nullptr);
                 EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("Duplicate GPU detected"));
                 my.release();
               },
               {{"devices", {json::object()}}});
}

// --- mistakes ---

TEST(StandinNccl, UsingOrReleasingItAgainIsCaught) {
  const std::vector<Ended> all = run(1, [](Rank& my) {
    my.join();
    GOOD(ncclCommDestroy(my.comm));
    EXPECT_EQ(my.sum(), ncclInvalidArgument);
    EXPECT_EQ(ncclCommAbort(my.comm), ncclInvalidArgument);
    my.release();
  });
  EXPECT_EQ(all[0].status, 0);
  EXPECT_THAT(all[0].violations,
              ElementsAre(HasSubstr("handle: NCCL communicator that was released"),
                          HasSubstr("given to ncclCommAbort")));
}

TEST(StandinNccl, NotReleasingItIsCaught) {
  expect_violation(1, "leak: NCCL communicator of ncclCommInitRank", [](Rank& my) {
    my.join();
    my.release();
  });
}

TEST(StandinNccl, AnOperandThatIsTooSmallIsCaught) {
  expect_violation(1, "overrun: recvbuff of ncclAllReduce", [](Rank& my) {
    my.join();
    GOOD(my.sum(Rank::count + 1));
    EXPECT_EQ(cudaStreamSynchronize(my.stream), cudaErrorIllegalAddress);
    ncclCommAbort(my.comm);
  });
}

TEST(StandinNccl, OperandsThatOverlapAreCaught) {
  expect_violation(1, "overlap", [](Rank& my) {
    my.join();
    EXPECT_EQ(ncclAllReduce(my.memory, my.memory + 1, 10, ncclFloat32, ncclSum, my.comm, my.stream),
              ncclInvalidArgument);
    my.leave();
  });
}

TEST(StandinNccl, AStreamOfAnotherDeviceIsCaught) {
  expect_violation(
      1, "not of the communicator's device",
      [](Rank& my) {
        my.join();
        GOOD(cudaSetDevice(1));
        cudaStream_t other = nullptr;
        GOOD(cudaStreamCreate(&other));
        EXPECT_EQ(ncclAllReduce(my.memory, my.memory, 10, ncclFloat32, ncclSum, my.comm, other),
                  ncclInvalidArgument);
        GOOD(cudaStreamDestroy(other));
        my.leave();
      },
      {{"devices", {json::object(), json::object()}}});
}

TEST(StandinNccl, JoiningInsideTheWindowIsCaught) {
  expect_violation(1, "window: ncclCommInitRank between start and stop", [](Rank& my) {
    my.begin();
    cudaEvent_t start = nullptr, stop = nullptr;
    GOOD(cudaEventCreate(&start));
    GOOD(cudaEventCreate(&stop));
    const ncclUniqueId id = my.id();
    GOOD(cudaEventRecord(start, my.stream));
    GOOD(ncclCommInitRank(&my.comm, my.ranks, id, my.rank));
    GOOD(my.sum());
    GOOD(cudaEventRecord(stop, my.stream));
    GOOD(cudaEventSynchronize(stop));
    float milliseconds = 0;
    GOOD(cudaEventElapsedTime(&milliseconds, start, stop));
    GOOD(cudaEventDestroy(start));
    GOOD(cudaEventDestroy(stop));
    my.leave();
  });
}

TEST(StandinNccl, AGraphThatOutlivesItsCommunicatorIsCaught) {
  const std::vector<Ended> all = run(1, [](Rank& my) {
    my.join();
    GOOD(cudaStreamBeginCapture(my.stream, cudaStreamCaptureModeThreadLocal));
    GOOD(my.sum());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    GOOD(cudaStreamEndCapture(my.stream, &graph));
    GOOD(cudaGraphInstantiate(&executable, graph, 0));
    GOOD(cudaGraphDestroy(graph));
    GOOD(ncclCommDestroy(my.comm));
    GOOD(cudaGraphLaunch(executable, my.stream));
    GOOD(cudaGraphExecDestroy(executable));
    my.release();
  });
  EXPECT_EQ(all[0].status, 0);
  EXPECT_THAT(all[0].violations, ElementsAre(HasSubstr("destroy them before"),
                                             HasSubstr("whose communicator was released")));
}

TEST(StandinNccl, AnIdIsForOneCommunicator) {
  expect_violation(1, "used this unique id already", [](Rank& my) {
    my.join();
    ncclComm_t again = nullptr;
    EXPECT_EQ(ncclCommInitRank(&again, 1, my.id(), 0), ncclInvalidArgument);
    EXPECT_EQ(again, nullptr);
    my.leave();
  });
}

TEST(StandinNccl, DestroyingABusyStreamIsCaught) {
  const std::vector<Ended> all = run(2, [](Rank& my) {
    my.join();
    if (my.rank == 0) {
      GOOD(my.sum());
    }
    GOOD(cudaStreamDestroy(my.stream));
    GOOD(ncclCommAbort(my.comm));
    GOOD(cudaFree(my.memory));
  });
  EXPECT_THAT(all[0].violations, ElementsAre(HasSubstr("stream: destroyed while work on it")));
  EXPECT_THAT(all[1].violations, IsEmpty());
}

// --- faults ---

TEST(StandinNccl, ARankCanFallSilent) {
  expect_clean(2,
               [](Rank& my) {
                 my.join();
                 for (int i = 0; i < 2; ++i) {
                   GOOD(my.sum());
                   GOOD(cudaStreamSynchronize(my.stream));
                 }
                 GOOD(my.sum());
                 EXPECT_TRUE(my.stuck());
                 EXPECT_EQ(my.asked(), ncclSuccess) << "nobody is told";
                 GOOD(ncclCommAbort(my.comm));
                 EXPECT_TRUE(my.idle());
                 my.release();
               },
               {{"faults", {{"nccl_silent_rank", {{"rank", 1}, {"after", 2}}}}}});
}

TEST(StandinNccl, AnErrorCanComeWhileOneWaits) {
  expect_clean(2,
               [](Rank& my) {
                 my.join();
                 GOOD(my.sum());
                 GOOD(cudaStreamSynchronize(my.stream));
                 EXPECT_EQ(my.asked(), ncclSuccess);
                 my.sum();
                 EXPECT_TRUE(my.stuck());
                 EXPECT_EQ(my.asked(), ncclRemoteError);
                 EXPECT_EQ(my.sum(), ncclRemoteError);
                 GOOD(ncclCommAbort(my.comm));
                 EXPECT_TRUE(my.idle());
                 my.release();
               },
               {{"faults", {{"nccl_async_error", 1}}}});
}

TEST(StandinNccl, ARankCanFailToJoin) {
  expect_clean(2,
               [](Rank& my) {
                 my.start_joining();
                 for (int i = 0; i < 20; ++i) EXPECT_EQ(my.asked(), ncclInProgress);
                 GOOD(ncclCommAbort(my.comm));
                 my.release();
               },
               {{"faults", {{"nccl_init_silent_rank", 1}}}});
}

TEST(StandinNccl, ItCanBeUnsupported) {
  expect_clean(1,
               [](Rank& my) {
                 my.begin();
                 EXPECT_EQ(ncclCommInitRank(&my.comm, 1, my.id(), 0), ncclSystemError);
                 my.release();
               },
               {{"faults", {{"unsupported", {"nccl"}}}}});
}

}  // namespace
