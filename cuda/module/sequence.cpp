#include "cuda/module/sequence.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "cuda/module/support.hpp"

namespace forecost::cuda {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Sequence::Sequence(Context& context, std::span<const Step> steps, void* workspace,
                   std::int64_t workspace_bytes)
    : GraphOwner(context),
      context_(context),
      steps_(steps.begin(), steps.end()),
      workspace_(workspace),
      start_(make_event()),
      stop_(make_event()) {
  for (Step& step : steps_) {
    if (step.plan->info.workspace_bytes > workspace_bytes) {
      throw Failure(Code::failed, std::string(step.plan->info.implementation) +
                                      ": needs a workspace of " +
                                      std::to_string(step.plan->info.workspace_bytes) +
                                      " bytes, was given " + std::to_string(workspace_bytes));
    }
    step.plan->prepare(context_, step.tensors, workspace_);
  }
}

void Sequence::enqueue(std::int64_t runs) {
  for (std::int64_t run = 0; run < runs; ++run) {
    for (const Step& step : steps_) step.plan->enqueue(context_, step.tensors, workspace_);
  }
}

bool Sequence::capture(std::int64_t runs) {
  drop_graphs();
  graph_ = capture_graph(context_, [&] { enqueue(runs); });
  if (graph_ == nullptr) return false;
  graph_runs_ = runs;
  return true;
}

void Sequence::enqueue_hold(std::int64_t runs, Launch launch) {
  if (enqueued_runs_ != runs || enqueued_launch_ != launch) {
    // A launch costs 2 to 5 us, and a library more in front of its own.
    const double launches =
        launch == Launch::graph
            ? 4.0
            : static_cast<double>(runs) * static_cast<double>(steps_.size()) + 2.0;
    enqueued_runs_ = runs;
    enqueued_launch_ = launch;
    enqueue_s_ = 10e-6 * launches;
  }
  enqueue_spin(context_, std::clamp(1.5 * enqueue_s_ + 10e-6, 20e-6, 20e-3), 1);
}

Timing Sequence::run(std::int64_t runs, Launch launch, bool hold) {
  if (runs < 1) throw Failure(Code::failed, "run: at least one run");
  if (launch == Launch::graph) {
    if (capturable_ && graph_runs_ != runs) capturable_ = capture(runs);
    if (!capturable_) launch = Launch::direct;
  }
  context_.wait();
  if (hold) enqueue_hold(runs, launch);

  for (const Step& step : steps_) step.plan->align(context_);

  check(cudaEventRecord(start_.get(), context_.stream), "cudaEventRecord");
  const Clock::time_point launched = Clock::now();
  if (launch == Launch::graph) {
    check(cudaGraphLaunch(graph_.get(), context_.stream), "cudaGraphLaunch");
  } else {
    enqueue(runs);
  }
  check(cudaEventRecord(stop_.get(), context_.stream), "cudaEventRecord");
  const double enqueue_s = seconds_since(launched);
  context_.wait(stop_);
  const double host_s = seconds_since(launched);

  // The least of all calls: one that had to wait for a place in the stream's queue, which a hold
  // keeps full, would make the next hold longer, and so on.
  if (hold) enqueue_s_ = std::min(enqueue_s_, enqueue_s);
  return Timing{seconds_between(start_, stop_), host_s, launch};
}

}  // namespace forecost::cuda
