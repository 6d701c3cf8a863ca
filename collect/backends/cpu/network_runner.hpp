#pragma once

#include <cstdint>
#include <memory>

#include "collect/protocol.hpp"
#include "data/networks/network.hpp"

namespace forecost {

/// What is run of a network: forward for inference, else a whole training step.
struct NetworkRun {
  const Network* network;
  std::int64_t batch = 1;
  bool training = false;
  DType dtype = DType::f32;
  Optimizer optimizer = Optimizer::sgd;  ///< of training
};

struct NetworkTimes {
  CaseTimes times;
  double plan_s = 0, memory_bytes = 0;
  int primitives = 0;
  int reorders = 0;  ///< of the primitives: changes of layout between layers, as in a framework
};

/// Runs whole sequential networks (conv2d, dense, pool2d, flatten; dropout in inference) on oneDNN
/// with real data flow: each layer reads what the one before it wrote, in the layout that each
/// prefers, with a reorder where two of them disagree. Training runs forward, backward in reverse
/// (no gradient for the network's input) and the optimizer on every parameter tensor; the loss is a
/// fixed gradient of the output. Caches are as the run leaves them: nothing is flushed.
class NetworkRunner {
 public:
  /// On `cores` cores (0: those this process is bound to), which it holds as long as it lives.
  /// Throws EnvironmentError.
  explicit NetworkRunner(int cores);
  ~NetworkRunner();
  const Device& device() const;

  /// Throws UsageError for a network with anything else in it, CaseRefused, or StopAsked.
  NetworkTimes measure(const NetworkRun& run, const MeasureRules& rules);

 private:
  struct Resources;
  std::unique_ptr<Resources> resources_;
};

/// For tests: values of one run in plain layout. Parameters, and their gradients in training, one
/// tensor after another, layer by layer, weights before bias.
struct NetworkValues {
  std::vector<float> input, parameters, output, output_gradient, gradients;
};
NetworkValues run_network_once(const NetworkRun& run);

}  // namespace forecost
