#include "train/model/baselines.hpp"

#include <limits>

#include <fmt/format.h>
#include <Eigen/Dense>

namespace forecost {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Non-negative least squares of three columns: the best of all subsets of columns whose
/// unconstrained solution is non-negative. Columns are scaled, since FLOPs and 1 differ by 1e10.
std::vector<double> non_negative_fit(const Eigen::MatrixX3d& columns,
                                     const Eigen::VectorXd& values) {
  Eigen::Vector3d best = Eigen::Vector3d::Zero();
  double best_error = values.squaredNorm();
  for (int subset = 1; subset < 8; ++subset) {
    std::vector<int> chosen;
    for (int c = 0; c < 3; ++c) {
      if ((subset >> c) & 1 && columns.col(c).squaredNorm() > 0) chosen.push_back(c);
    }
    if (chosen.empty()) continue;
    Eigen::MatrixXd part = columns(Eigen::all, chosen);
    const Eigen::RowVectorXd scale = part.colwise().norm();
    part = part.array().rowwise() / scale.array();
    Eigen::VectorXd solution = part.colPivHouseholderQr().solve(values);
    if (solution.minCoeff() < 0) continue;
    const double error = (part * solution - values).squaredNorm();
    if (error < best_error) {
      best_error = error;
      best.setZero();
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto at = static_cast<Eigen::Index>(i);
        best[chosen[i]] = solution[at] / scale[at];
      }
    }
  }
  return {best[0], best[1], best[2]};
}

std::vector<double> straight_line(const Eigen::VectorXd& flops, const Eigen::VectorXd& seconds) {
  const double mean_flops = flops.mean(), mean_s = seconds.mean();
  const Eigen::VectorXd centred = flops.array() - mean_flops;
  const double variance = centred.squaredNorm();
  const double slope = variance > 0 ? centred.dot(seconds) / variance : 0;
  return {slope, 0, mean_s - slope * mean_flops};
}

}  // namespace

std::vector<Prediction> RooflineBaseline::predict(std::span<const Query> queries) const {
  std::vector<Prediction> result;
  for (const Query& query : queries) {
    const double s = roofline_s(query.task.work(), query.task.dtype, *query.device);
    result.push_back({.seconds = s > 0 ? s : nan});
  }
  return result;
}

std::string LinearBaseline::group(const Query& query) const {
  const Task& task = query.task;
  std::string name =
      fmt::format("{} {} {}", query.device->device_class, task.layer.op().name, name_of(task.pass));
  if (kind_ == Kind::fair) {
    name += fmt::format(" {} {}", name_of(task.dtype), name_of(task.optimizer));
  }
  return name;
}

LinearBaseline::LinearBaseline(Kind kind, std::span<const Example> training) : kind_(kind) {
  std::map<std::string, std::vector<const Example*>> groups;
  for (const Example& example : training) groups[group(example.query)].push_back(&example);
  for (const auto& [name, examples] : groups) {
    const auto n = static_cast<Eigen::Index>(examples.size());
    Eigen::VectorXd seconds(n);
    Eigen::MatrixX3d columns(n, 3);
    for (Eigen::Index i = 0; i < n; ++i) {
      const Example& example = *examples[static_cast<std::size_t>(i)];
      const Work work = example.query.task.work();
      seconds[i] = example.seconds;
      columns.row(i) << work.flops, work.bytes(), 1;
    }
    if (kind_ == Kind::published) {
      coefficients_[name] = straight_line(columns.col(0), seconds);
    } else {
      columns = columns.array().colwise() / seconds.array();
      coefficients_[name] = non_negative_fit(columns, Eigen::VectorXd::Ones(n));
    }
  }
}

std::vector<Prediction> LinearBaseline::predict(std::span<const Query> queries) const {
  std::vector<Prediction> result;
  for (const Query& query : queries) {
    const auto found = coefficients_.find(group(query));
    if (found == coefficients_.end()) {
      result.push_back({.seconds = nan});
      continue;
    }
    const Work work = query.task.work();
    const auto& c = found->second;
    result.push_back({.seconds = c[0] * work.flops + c[1] * work.bytes() + c[2]});
  }
  return result;
}

}  // namespace forecost
