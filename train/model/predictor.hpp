#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/device.hpp"
#include "data/measurement.hpp"

namespace forecost {

/// One question to a model. The device outlives the call.
struct Query {
  Task task;
  const Device* device;
};

/// A predicted time with a 90 % interval, in two parts, since errors of one device are shared by
/// all of its layers while errors of layers average out: exp(+-half-width) are the factors.
struct Prediction {
  double seconds = 0;
  double layer_log_halfwidth = 0;
  double device_log_halfwidth = 0;
  bool outside_training_range = false;

  /// Both parts together, as independent errors.
  double low_s() const;
  double high_s() const;
};

/// What composition, evaluation and reports ask: the learned model and the baselines alike.
class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual std::string_view name() const = 0;
  /// Whether predict() answers for the task.
  virtual bool knows(const Task& /*task*/) const { return true; }
  /// One answer per query, in order. Throws UsageError for an operator, pass or dtype that the
  /// model was not trained on.
  virtual std::vector<Prediction> predict(std::span<const Query> queries) const = 0;
  /// Devices of the training corpora, one per class.
  virtual std::span<const Device> devices() const = 0;
};

/// A class that the predictor knows, a shipped device name or a TOML file.
Device resolve_device(const Predictor& predictor, std::string_view name_or_file);

}  // namespace forecost
