#include "data/operators/layer_norm.hpp"
#include "data/operators/reduce.hpp"
#include "data/operators/softmax.hpp"
#include "train/model/schemas.hpp"

// Operators that reduce rows of a tensor.

namespace forecost {
namespace {

bool covers_layer_norm(const Task& task) {
  return task.layer.op().name == "layer_norm" && task.pass != Pass::update;
}

void describe_layer_norm(const Query& query, Features& features) {
  const LayerNormShape s = layer_norm_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(static_cast<double>(s.batch * s.rows), static_cast<double>(s.features), features);
  features.add("affine", s.affine ? 1 : 0);
  features.add_one_hot(query.task.optimizer);  // of a training step
}

bool covers_softmax(const Task& task) { return task.layer.op().name == "softmax"; }

void describe_softmax(const Query& query, Features& features) {
  const SoftmaxShape s = softmax_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(static_cast<double>(s.batch * s.rows), static_cast<double>(s.features), features);
}

bool covers_reduce(const Task& task) { return task.layer.op().name == "reduce"; }

void describe_reduce(const Query& query, Features& features) {
  const ReduceShape s = reduce_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(static_cast<double>(s.batch * s.rows), static_cast<double>(s.features), features);
  features.add_log("log batch", static_cast<double>(s.batch));
  features.add_one_hot(s.operation);
  features.add_one_hot(s.axis);
}

}  // namespace

const FeatureSchema reduce_schema{
    .name = "reduce",
    .covers = &covers_reduce,
    .describe = &describe_reduce,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example =
        "forward f32 none cold heuristic reduce batch=1 features=1 operation=sum "
        "axis=features",
};

const FeatureSchema layer_norm_schema{
    .name = "layer_norm",
    .covers = &covers_layer_norm,
    .describe = &describe_layer_norm,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic layer_norm batch=1 features=1",
};

const FeatureSchema softmax_schema{
    .name = "softmax",
    .covers = &covers_softmax,
    .describe = &describe_softmax,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic softmax batch=1 features=1",
};

}  // namespace forecost
