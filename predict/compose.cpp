#include "predict/compose.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace forecost {

namespace {

/// What stays in the device's cache from one use to the next.
class Residency {
 public:
  explicit Residency(const Scenario& scenario) : bytes_(bytes_of(scenario.dtype)) {
    for (const Attribute attribute :
         {Attribute::probed_cache_bytes, Attribute::llc_bytes, Attribute::l2_bytes}) {
      if (scenario.device->has(attribute)) {
        cache_ = (*scenario.device)[attribute];
        break;
      }
    }
    const auto batch = static_cast<double>(scenario.batch);
    double weights = 0, outputs = 0, largest = 0;
    for (const NetworkNode& node : scenario.network->nodes) {
      const double in = batch * static_cast<double>(node.in.elements());
      const double out = batch * static_cast<double>(node.out.elements());
      outputs += out;
      largest = std::max(largest, in + out);
      weights += static_cast<double>(node.parameter_count());
    }
    double needed = bytes_ * (weights + largest);
    if (scenario.mode == Mode::training) {
      needed = bytes_ * (2 * weights + outputs + largest) +
               optimizer_cost(scenario.optimizer).state_tensors * bytes_of(DType::f32) * weights;
    }
    whole_network_ = needed <= cache_;
  }

  /// Share of the bytes a pass moves that are in the cache when it begins: all of them if the whole
  /// network is, else those its neighbour has just written or will read next.
  double hot_share(const Layer& layer, Pass pass) const {
    if (whole_network_) return 1;
    const auto in = bytes_ * static_cast<double>(layer.op().input_elements(layer));
    const auto out = bytes_ * static_cast<double>(layer.op().output_elements(layer));
    const auto weights = bytes_ * static_cast<double>(layer.parameter_count());
    if (in + out > cache_) return 0;
    switch (pass) {
      case Pass::forward:
      case Pass::backward_data:
      case Pass::backward:
        return (in + out) / (in + out + weights);
      case Pass::backward_weights:
        return out / (in + out + weights);  // the gradient is fresh
      case Pass::update:
      case Pass::training_step:
        break;
    }
    return 0;
  }

 private:
  double bytes_;
  double cache_ = 0;
  bool whole_network_ = false;
};

/// All passes of all layers as distinct tasks, so that equal layers are asked for once and their
/// errors are known to be the same.
class TaskTimes {
 public:
  TaskTimes(const Scenario& scenario, Residency residency)
      : scenario_(scenario), residency_(residency) {}

  struct Use {
    std::size_t layer;
    Pass pass;
  };

  Task task(const Layer& layer, Pass pass) const {
    return {layer, pass, scenario_.dtype,
            pass == Pass::update ? scenario_.optimizer : Optimizer::none, CacheState::cold};
  }

  void add(std::size_t index, const Layer& layer, Pass pass) {
    const Task task = this->task(layer, pass);
    const auto [at, fresh] = known_.try_emplace(task_text(task), tasks_.size());
    if (fresh) {
      tasks_.push_back({task, residency_.hot_share(layer, pass), {}});
    }
    tasks_[at->second].uses.push_back({index, pass});
  }

  struct Timed {
    Task task;
    double hot_share;
    std::vector<Use> uses;
  };
  const std::vector<Timed>& tasks() const { return tasks_; }

  std::vector<Prediction> predict(const Predictor& predictor) const {
    std::vector<Query> queries;
    for (const Timed& timed : tasks_) {
      if (timed.hot_share < 1) queries.push_back({timed.task, scenario_.device});
      if (timed.hot_share > 0) {
        Task hot = timed.task;
        hot.cache = CacheState::hot;
        queries.push_back({hot, scenario_.device});
      }
    }
    const auto answers = predictor.predict(queries);
    std::vector<Prediction> times;
    auto answer = answers.begin();
    for (const Timed& timed : tasks_) {
      Prediction time = *answer++;
      if (timed.hot_share > 0 && timed.hot_share < 1) time = mix(time, *answer++, timed.hot_share);
      times.push_back(time);
    }
    return times;
  }

 private:
  static Prediction mix(const Prediction& cold, const Prediction& hot, double hot_share) {
    const auto between = [&](double a, double b) { return a + hot_share * (b - a); };
    return {between(cold.seconds, hot.seconds),
            between(cold.layer_log_halfwidth, hot.layer_log_halfwidth),
            between(cold.device_log_halfwidth, hot.device_log_halfwidth),
            // The shape is familiar if it is in either state: few corpora have both everywhere.
            cold.outside_training_range && hot.outside_training_range};
  }

  const Scenario& scenario_;
  Residency residency_;
  std::vector<Timed> tasks_;
  std::unordered_map<std::string, std::size_t> known_;
};

double launch_latency_s(const Scenario& scenario) {
  if (scenario.protocol != Protocol::device_events) return 0;
  for (const Attribute attribute :
       {Attribute::probed_launch_latency_s, Attribute::launch_latency_s}) {
    if (scenario.device->has(attribute)) return (*scenario.device)[attribute];
  }
  return 0;
}

}  // namespace

NetworkTime compose(const Predictor& predictor, const Scenario& scenario) {
  const bool training = scenario.mode == Mode::training;
  NetworkTime result;
  result.network = scenario.network->name;
  result.device_class = scenario.device->device_class;
  result.batch = scenario.batch;
  result.mode = scenario.mode;
  result.dtype = scenario.dtype;
  result.optimizer = training ? scenario.optimizer : Optimizer::none;
  if (training && scenario.optimizer == Optimizer::none) {
    throw UsageError("training needs an optimizer, such as adam; found none");
  }

  TaskTimes tasks(scenario, Residency(scenario));
  const auto runs = scenario.network->runs(scenario.batch, scenario.mode);
  const auto unknown = [&](const LayerRun& run) {
    return std::any_of(run.passes.begin(), run.passes.end(),
                       [&](Pass pass) { return !predictor.knows(tasks.task(run.layer, pass)); });
  };
  // Where nothing is known the predictor tells what it does know.
  const bool nothing = std::all_of(runs.begin(), runs.end(), unknown);
  for (const LayerRun& run : runs) {
    const NetworkNode& node = scenario.network->nodes[run.node];
    if (!nothing && unknown(run)) {
      ++result.uncosted[node.op];
      continue;
    }
    for (const Pass pass : run.passes) tasks.add(result.layers.size(), run.layer, pass);
    result.layers.push_back({.name = node.name, .op = node.op});
  }
  if (result.layers.empty()) {
    throw UsageError("network " + scenario.network->name + " has no layer that can be predicted");
  }

  const double launch_s = launch_latency_s(scenario);
  const auto times = tasks.predict(predictor);
  double layer_variance = 0, device_error = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Prediction& time = times[i];
    const auto uses = static_cast<double>(tasks.tasks()[i].uses.size());
    const double error = uses * time.seconds * time.layer_log_halfwidth;
    layer_variance += error * error;
    device_error += uses * time.seconds * time.device_log_halfwidth;
    for (const auto& use : tasks.tasks()[i].uses) {
      LayerTime& layer = result.layers[use.layer];
      double& pass_s = use.pass == Pass::forward  ? layer.forward_s
                       : use.pass == Pass::update ? layer.update_s
                                                  : layer.backward_s;
      pass_s += time.seconds + launch_s;
      layer.launch_s += launch_s;
      layer.outside_training_range |= time.outside_training_range;
    }
  }
  double outside_s = 0;
  for (const LayerTime& layer : result.layers) {
    result.forward_s += layer.forward_s;
    result.backward_s += layer.backward_s;
    result.update_s += layer.update_s;
    if (layer.outside_training_range) outside_s += layer.total_s();
  }
  result.total_s = result.forward_s + result.backward_s + result.update_s;
  result.outside_training_range = result.total_s > 0 ? outside_s / result.total_s : 0;
  const double halfwidth =
      result.total_s > 0 ? std::hypot(std::sqrt(layer_variance), device_error) / result.total_s : 0;
  result.low_s = result.total_s * std::exp(-halfwidth);
  result.high_s = result.total_s * std::exp(halfwidth);
  return result;
}

RunTime run_time(const NetworkTime& step, std::int64_t dataset_size, std::int64_t epochs) {
  const std::int64_t steps = (dataset_size + step.batch - 1) / step.batch;
  const auto per_epoch = static_cast<double>(steps), n = static_cast<double>(epochs);
  const double epoch = per_epoch * step.total_s, low = per_epoch * step.low_s,
               high = per_epoch * step.high_s;
  return {steps, epochs, epoch, low, high, n * epoch, n * low, n * high};
}

}  // namespace forecost
