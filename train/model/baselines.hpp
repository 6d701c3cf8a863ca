#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/model/predictor.hpp"

namespace forecost {

/// A measured time as training and evaluation see it. The device outlives it.
struct Example {
  Query query;
  double seconds;
};

/// FLOPs over peak or bytes over bandwidth, whichever is larger; a device without either, and work
/// without FLOPs or bytes, gives NaN.
class RooflineBaseline final : public Predictor {
 public:
  std::string_view name() const override { return "roofline"; }
  std::vector<Prediction> predict(std::span<const Query> queries) const override;
  std::span<const Device> devices() const override { return {}; }
};

/// Straight lines fitted to groups of training rows of one device class; NaN where a group has no
/// training rows.
class LinearBaseline final : public Predictor {
 public:
  /// published: a + b FLOPs by least squares, per operator and pass, the comparison of the 2018
  /// paper. fair: non-negative multiples of FLOPs, bytes and 1, least squares of the relative
  /// error, per operator, pass, dtype and optimizer.
  enum class Kind { published, fair };
  using Coefficients = std::map<std::string, std::vector<double>>;  ///< by group: {flops, bytes, 1}

  LinearBaseline(Kind kind, std::span<const Example> training);
  LinearBaseline(Kind kind, Coefficients coefficients)
      : kind_(kind), coefficients_(std::move(coefficients)) {}

  std::string_view name() const override {
    return kind_ == Kind::published ? "linear_published" : "linear_fair";
  }
  std::vector<Prediction> predict(std::span<const Query> queries) const override;
  std::span<const Device> devices() const override { return {}; }
  const Coefficients& coefficients() const { return coefficients_; }

 private:
  std::string group(const Query& query) const;
  Kind kind_;
  Coefficients coefficients_;
};

}  // namespace forecost
