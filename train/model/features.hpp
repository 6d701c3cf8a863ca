#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/model/bound.hpp"
#include "train/model/predictor.hpp"

namespace forecost {

/// The features of one query, in the order in which a schema adds them: one piece of code gives
/// names and values, so that they cannot disagree.
class Features {
 public:
  explicit Features(bool with_names = false) : with_names_(with_names) {}
  void add(std::string_view name, double value) {
    if (with_names_) names_.emplace_back(name);
    values_.push_back(value);
  }
  /// log of a quantity that is at least `floor`.
  void add_log(std::string_view name, double value, double floor = 1);
  /// 0 or 1 for each name of an enumeration.
  template <class E>
  void add_one_hot(E value) {
    for (std::size_t i = 0; i < EnumNames<E>::names.size(); ++i) {
      if (with_names_) {
        names_.push_back(std::string(EnumNames<E>::kind) + " " +
                         std::string(EnumNames<E>::names[i]));
      }
      values_.push_back(static_cast<std::size_t>(value) == i ? 1 : 0);
    }
  }
  void clear() { values_.clear(); }
  std::span<const double> values() const { return values_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  bool with_names_;
  std::vector<std::string> names_;
  std::vector<double> values_;
};

/// What one network of a model is told and asked: which tasks it covers, their features, and how
/// its output is turned into seconds. One file defines a schema, one line in schemas.cpp registers
/// it.
struct FeatureSchema {
  std::string_view name;
  bool (*covers)(const Task&);
  void (*describe)(const Query&, Features&);
  /// Seconds to what the network learns, and back.
  double (*target)(const Query&, double seconds);
  double (*seconds)(const Query&, double target);
  /// Text of a task that it covers, from which names() are taken.
  std::string_view example;

  std::vector<std::string> names() const;
};

/// The schemas of a preset: "default" or "justus2018"; an unknown one lists the known (UsageError).
std::span<const FeatureSchema* const> schemas(std::string_view preset);
std::vector<std::string> presets();

/// The default preset's target: log of the ratio of the time to bound_s().
double log_ratio_target(const Query& query, double seconds);
double log_ratio_seconds(const Query& query, double target);

/// What all schemas of the default preset begin with: work against the device's limits, pass,
/// dtype, cache state.
void describe_work(const Query& query, Features& features);
/// A matrix product of m x k by k x n as a device sees it: sizes, and what tiles of 16, 32 and 64
/// waste at the edges.
void describe_product(double m, double n, double k, Features& features);
/// A tensor of `rows` rows, each of `length` elements side by side in memory: sizes, and what
/// vectors of 4 and 32 lanes and blocks of 1024 waste at the end of a row.
void describe_rows(double rows, double length, Features& features);

}  // namespace forecost
