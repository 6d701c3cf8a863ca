#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/toml_layer.hpp"

namespace forecost {

/// Low-discrepancy points in the unit cube: the additive recurrence x_n = frac(x_0 + n a) with
/// a_i = g^-i, g the root above 1 of g^(d+1) = g + 1 (Roberts 2018, "The unreasonable effectiveness
/// of quasirandom sequences"; d = 1 is the golden ratio). The start x_0 is drawn from the seed.
class QuasiRandom {
 public:
  QuasiRandom(std::size_t dimensions, std::uint64_t seed);
  /// The next point, valid until the next call.
  std::span<const double> next();

 private:
  std::vector<double> step_, at_;
};

/// A bound of a range: a number, or a product such as "10000/side" of numbers and parameters.
class Bound {
 public:
  Bound() = default;
  explicit Bound(const TomlValue& value, const Operator& op);
  /// Parameters it needs.
  std::span<const std::size_t> needs() const { return needs_; }
  double evaluate(std::span<const std::int64_t> values) const;

 private:
  struct Factor {
    bool divide;
    double number;  ///< of a constant
    std::optional<std::size_t> parameter;
  };
  std::vector<Factor> factors_;
  std::vector<std::size_t> needs_;
};

/// Where the values of a TOML key come from: a list (a constant is one of one value) or a range,
/// linear or logarithmic.
class ParameterSpace {
 public:
  ParameterSpace(const Operator& op, const TomlValue& value);
  /// The parameters that are set, all to the same value.
  std::span<const std::size_t> parameters() const { return parameters_; }
  std::vector<std::size_t> needs() const;
  bool constant() const { return list_.size() == 1; }
  const TomlValue& source() const { return source_; }
  /// Maps u in [0, 1) to a value; `values` holds what the bounds need. nullopt: the range is empty.
  std::optional<std::int64_t> draw(double u, std::span<const std::int64_t> values) const;

 private:
  TomlValue source_;
  std::vector<std::size_t> parameters_;
  std::vector<std::int64_t> list_;
  std::int64_t lowest_, highest_;  ///< of the parameters themselves
  Bound min_, max_;
  bool logarithmic_ = false;
};

}  // namespace forecost
