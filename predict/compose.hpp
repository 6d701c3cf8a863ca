#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/networks/network.hpp"
#include "train/model/predictor.hpp"

namespace forecost {

/// What a network is predicted for. Network and device outlive the call.
struct Scenario {
  const Network* network;
  const Device* device;
  std::int64_t batch;
  Mode mode = Mode::inference;
  DType dtype = DType::f32;
  Optimizer optimizer = Optimizer::adam;  ///< of training
  /// How the predictor's training times were taken: those of device events lack the time to launch
  /// an operator, which is then added once per operator.
  Protocol protocol = Protocol::host_clock;
};

/// Predicted seconds of one layer; passes that the mode does not have are 0.
struct LayerTime {
  std::string name, op;
  double forward_s = 0, backward_s = 0, update_s = 0;
  double launch_s = 0;  ///< included in the passes
  bool outside_training_range = false;
  double total_s() const { return forward_s + backward_s + update_s; }
};

/// Predicted seconds of one batch through a network: an inference or a training step. The interval
/// is the predictor's 90 % one.
struct NetworkTime {
  std::string network, device_class;
  std::int64_t batch = 0;
  Mode mode = Mode::inference;
  DType dtype = DType::f32;
  Optimizer optimizer = Optimizer::none;
  double total_s = 0, low_s = 0, high_s = 0;
  double forward_s = 0, backward_s = 0, update_s = 0;
  double outside_training_range = 0;  ///< share of total_s in layers beyond the training range
  std::vector<LayerTime> layers;
  std::map<std::string, int> uncosted;  ///< layers the predictor was not trained on
};

/// The sum of the passes that run (Network::runs). Weights are cold and activations hot as far as
/// the device's cache holds them: a pass's time is interpolated between its cold and its hot
/// prediction by the share of its bytes that is in the cache. Errors of different layers are
/// independent and average out, equal layers share theirs, and the device's part is shared by all.
/// Layers with a pass that the predictor was not trained on are left out and counted as uncosted;
/// throws UsageError where that is all of them.
NetworkTime compose(const Predictor& predictor, const Scenario& scenario);

/// Steps, epochs and runs: whole batches, the last one padded.
struct RunTime {
  std::int64_t steps_per_epoch, epochs;
  double epoch_s, epoch_low_s, epoch_high_s;
  double run_s, run_low_s, run_high_s;
};
RunTime run_time(const NetworkTime& step, std::int64_t dataset_size, std::int64_t epochs);

}  // namespace forecost
