#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/module/capture.hpp"

namespace forecost::cuda {

/// Steps that run one after another, and the events and the graph that they are timed with.
struct Sequence final : GraphOwner {
  /// Prepares the plans for the steps' tensors. Throws Failure.
  Sequence(Context& context, std::span<const Step> steps, void* workspace,
           std::int64_t workspace_bytes);

  /// As ModuleTable::run. Throws Failure.
  Timing run(std::int64_t runs, Launch launch, bool hold);

  void drop_graphs() noexcept override {
    graph_.reset();
    graph_runs_ = 0;
  }
  Context& context() { return context_; }

 private:
  void enqueue(std::int64_t runs);
  /// False where the steps cannot be captured.
  bool capture(std::int64_t runs);
  void enqueue_hold(std::int64_t runs, Launch launch);

  Context& context_;
  std::vector<Step> steps_;
  void* workspace_;
  Event start_, stop_;

  GraphExec graph_;  ///< of graph_runs_ runs
  std::int64_t graph_runs_ = 0;
  bool capturable_ = true;

  /// What queueing took at best, of calls with these runs and this launch.
  double enqueue_s_ = 0;
  std::int64_t enqueued_runs_ = 0;
  Launch enqueued_launch_ = Launch::direct;
};

}  // namespace forecost::cuda
