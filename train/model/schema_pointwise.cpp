#include "data/operators/activation.hpp"
#include "data/operators/dropout.hpp"
#include "data/operators/elementwise.hpp"
#include "train/model/schemas.hpp"

// Operators whose elements do not depend on each other.

namespace forecost {
namespace {

bool covers_elementwise(const Task& task) { return task.layer.op().name == "elementwise"; }

void describe_elementwise(const Query& query, Features& features) {
  const ElementwiseShape s = elementwise_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(static_cast<double>(s.batch), static_cast<double>(s.features), features);
  features.add_one_hot(s.operation);
  features.add_one_hot(s.operand);
}

bool covers_activation(const Task& task) { return task.layer.op().name == "activation"; }

void describe_activation(const Query& query, Features& features) {
  const ActivationShape s = activation_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(static_cast<double>(s.batch), static_cast<double>(s.features), features);
  features.add_one_hot(s.function);
}

bool covers_dropout(const Task& task) { return task.layer.op().name == "dropout"; }

void describe_dropout(const Query& query, Features& features) {
  const DropoutShape s = dropout_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(static_cast<double>(s.batch), static_cast<double>(s.features), features);
}

}  // namespace

const FeatureSchema dropout_schema{
    .name = "dropout",
    .covers = &covers_dropout,
    .describe = &describe_dropout,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic dropout batch=1 features=1",
};

const FeatureSchema elementwise_schema{
    .name = "elementwise",
    .covers = &covers_elementwise,
    .describe = &describe_elementwise,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic elementwise batch=1 features=1 operation=add",
};

const FeatureSchema activation_schema{
    .name = "activation",
    .covers = &covers_activation,
    .describe = &describe_activation,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic activation batch=1 features=1 function=relu",
};

}  // namespace forecost
