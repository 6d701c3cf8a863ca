#include "data/operators/rnn.hpp"
#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) { return task.layer.op().name == "rnn" && task.pass != Pass::update; }

/// What a step waits for: the product of the hidden state, once for each step of each layer, while
/// the products of the inputs can be one for all steps.
void describe(const Query& query, Features& features) {
  const RnnShape s = rnn_shape(query.task.layer);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  const double size = bytes_of(query.task.dtype), batch = d(s.batch),
               gates = d(s.gates() * s.hidden_features),
               recurrent = size * gates * d(s.hidden_features);
  describe_work(query, features);
  describe_product(batch, gates, d(s.hidden_features), features);
  features.add_log("log batch", batch);
  features.add_log("log steps", d(s.steps));
  features.add_log("log inputs", d(s.in_features));
  features.add_log("log hidden", d(s.hidden_features));
  features.add_log("log layers", d(s.layers));
  const double sequential = d(s.steps * s.layers * s.directions());
  features.add_log("log sequential steps", sequential);
  features.add_log("log launches/bound",
                   sequential * limits.launch_s / bound_s(query.task.work(), limits), 1e-4);
  features.add_log("log step/launch",
                   2 * batch * gates * d(s.hidden_features) / limits.peak_flops / limits.launch_s,
                   1e-4);
  features.add_log("log recurrent weights/l2", recurrent / limits.l2_bytes, 1e-6);
  features.add_log("log recurrent weights/cache", recurrent / limits.cache_bytes, 1e-6);
  features.add("bidirectional", s.bidirectional ? 1 : 0);
  features.add_one_hot(s.cell);
  features.add_one_hot(query.task.optimizer);  // of a training step
}

}  // namespace

const FeatureSchema rnn_schema{
    .name = "rnn",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example =
        "forward f32 none cold heuristic rnn batch=1 steps=1 in_features=1 hidden_features=1 "
        "cell=lstm",
};

}  // namespace forecost
