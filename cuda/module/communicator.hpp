#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

/// An id for communicators that are to be opened with it. Throws Failure.
CommunicatorId new_communicator_id();

/// This rank's part of a communicator of NCCL, which works on the context's stream. It never blocks
/// inside of the library: a rank that died, or does not come along, is noticed by whoever waits.
struct Communicator {
  /// Waits for all ranks. Throws Failure.
  Communicator(Context& context, const CommunicatorId& id, int rank, int size, double timeout_s);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Context& context() { return context_; }

  // Put on the stream; they can be captured. Throw Failure.
  void all_reduce(const void* from, void* to, std::int64_t count, Element element, Combine combine);
  void broadcast(void* memory, std::int64_t bytes, int root);

  /// Of host memory, in place; waits.
  void combine(void* values, Element element, std::int64_t count, Combine combine);
  void broadcast_host(void* values, std::int64_t bytes, int root);

  /// What whoever waits for the stream calls again and again. `waited_s`: how long nothing has
  /// come. Throws Failure once the library tells of an error or the timeout is over, and has then
  /// given the communicator up: what it had on the stream ends.
  void watch(double waited_s);

 private:
  template <class Exchange>
  void stage(void* values, std::int64_t bytes, Exchange exchange);
  /// What the library says of it now.
  ncclResult_t state() const;
  /// What became of a call that answered `status`: ncclInProgress still once the timeout is over.
  ncclResult_t settled(ncclResult_t status) const;
  void settle(const char* what, ncclResult_t status);
  [[noreturn]] void give_up(Code code, const std::string& why);

  Context& context_;
  ncclComm_t handle_ = nullptr;
  int rank_, size_;
  double timeout_s_;
  Scratch staged_;
};

}  // namespace forecost::cuda
