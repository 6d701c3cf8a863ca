#pragma once

#include <functional>
#include <vector>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

/// What `enqueue` puts on the context's stream, as a graph that is ready to be launched; it does
/// not run. Null where it cannot be captured. Throws Failure for an error that is none of the
/// capture's.
GraphExec capture_graph(Context& context, const std::function<void()>& enqueue);

/// Who has captured graphs. A communicator cannot be given up while a graph holds one of its
/// collectives (NCCL waits for that), so it asks all of the context to drop theirs before.
class GraphOwner {
 public:
  explicit GraphOwner(Context& context);
  GraphOwner(const GraphOwner&) = delete;
  GraphOwner& operator=(const GraphOwner&) = delete;
  /// Those that run end when they end.
  virtual void drop_graphs() noexcept = 0;

 protected:
  ~GraphOwner();

 private:
  std::vector<GraphOwner*>& all_;
};

}  // namespace forecost::cuda
