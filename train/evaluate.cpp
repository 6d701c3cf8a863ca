#include "train/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/statistics.hpp"
#include "core/table.hpp"
#include "core/units.hpp"

namespace forecost {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::string split_name(const Model& model, const Query& query) {
  if (!model.trained_on(*query.device)) return "held_out_device";
  return split_of(query.task.layer, model.split_salt) == Split::test ? "held_out" : "seen";
}

/// One measurement with all predictions of it.
struct Outcome {
  double measured;
  Prediction model;
  double roofline, linear_published, linear_fair;
};

double mean_of(const std::vector<double>& values) {
  if (values.empty()) return nan;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

/// Absolute relative errors of those predictions that exist.
std::vector<double> errors_of(const std::vector<Outcome>& outcomes, double Outcome::*predicted) {
  std::vector<double> errors;
  for (const Outcome& o : outcomes) {
    if (std::isfinite(o.*predicted)) errors.push_back(std::fabs(o.*predicted / o.measured - 1));
  }
  return errors;
}

void summarise(const std::vector<Outcome>& outcomes, EvaluationRow& row) {
  std::vector<double> errors, signed_errors, squares, within, covered;
  for (const Outcome& o : outcomes) {
    const double error = o.model.seconds / o.measured - 1;
    errors.push_back(std::fabs(error));
    signed_errors.push_back(error);
    squares.push_back(std::pow(o.model.seconds - o.measured, 2));
    within.push_back(std::fabs(error) <= 0.1 ? 1 : 0);
    covered.push_back(o.model.low_s() <= o.measured && o.measured <= o.model.high_s() ? 1 : 0);
  }
  row.n = static_cast<std::int64_t>(outcomes.size());
  row.mape = mean_of(errors);
  row.median_ape = median(errors);
  row.within_10 = mean_of(within);
  row.rmse_s = std::sqrt(mean_of(squares));
  row.bias = mean_of(signed_errors);
  row.coverage = mean_of(covered);
  const auto roofline = errors_of(outcomes, &Outcome::roofline);
  const auto fair = errors_of(outcomes, &Outcome::linear_fair);
  row.roofline_mape = mean_of(roofline);
  row.linear_published_mape = mean_of(errors_of(outcomes, &Outcome::linear_published));
  row.linear_fair_mape = mean_of(fair);
}

}  // namespace

Evaluation evaluate(const Model& model, std::span<const Example> examples) {
  Evaluation result;
  std::vector<Query> queries;
  std::vector<double> measured;
  for (const Example& example : examples) {
    if (model.part_for(example.query.task) == nullptr) {
      ++result.not_covered;
      continue;
    }
    queries.push_back(example.query);
    measured.push_back(example.seconds);
  }
  const auto predicted = model.predict(queries);
  const auto roofline = RooflineBaseline().predict(queries);
  const auto published =
      LinearBaseline(LinearBaseline::Kind::published, model.linear_published).predict(queries);
  const auto fair = LinearBaseline(LinearBaseline::Kind::fair, model.linear_fair).predict(queries);

  using Key =
      std::tuple<std::string, std::string, std::string, std::string>;  // split, op, device, pass
  std::map<Key, std::vector<Outcome>> groups;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const Query& query = queries[i];
    const std::string op(query.task.layer.op().name), pass(name_of(query.task.pass));
    const Outcome outcome{measured[i], predicted[i], roofline[i].seconds, published[i].seconds,
                          fair[i].seconds};
    const std::string split = split_name(model, query);
    for (const std::string& ops : {op, std::string("all")}) {
      for (const std::string& passes : {pass, std::string("all")}) {
        groups[{split, ops, query.device->device_class, passes}].push_back(outcome);
      }
    }
  }
  for (const auto& [key, outcomes] : groups) {
    EvaluationRow row;
    std::tie(row.split, row.op, row.device, row.pass) = key;
    summarise(outcomes, row);
    result.rows.push_back(std::move(row));
  }
  return result;
}

std::string evaluation_table(const Evaluation& evaluation) {
  TextTable table({"operator", "device", "pass", "split", ">n", ">median", ">MAPE", ">within 10 %",
                   ">bias", ">coverage", ">roofline", ">linear 2018", ">linear fair"});
  for (const EvaluationRow& r : evaluation.rows) {
    if (r.pass == "all" && &r != &evaluation.rows.front()) table.rule();
    table.add({r.op, r.device, r.pass, r.split, std::to_string(r.n), format_percent(r.median_ape),
               format_percent(r.mape), format_percent(r.within_10, 0), format_percent(r.bias),
               format_percent(r.coverage, 0), format_percent(r.roofline_mape, 0),
               format_percent(r.linear_published_mape, 0), format_percent(r.linear_fair_mape, 0)});
  }
  std::string text = table.str();
  text +=
      "n: configurations. median, MAPE: absolute relative error. bias: mean relative error, above "
      "0 "
      "where predictions are too long.\ncoverage: share inside the 90 % interval. roofline, "
      "linear: "
      "MAPE of the baselines. held_out: configurations kept from training.\n";
  if (evaluation.not_covered > 0) {
    text += fmt::format("of operators, passes or dtypes that the model was not trained on: {}\n",
                        format_counted(evaluation.not_covered, "row"));
  }
  return text;
}

std::string evaluation_json(const Evaluation& evaluation) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
  };
  nlohmann::json rows = nlohmann::json::array();
  for (const EvaluationRow& r : evaluation.rows) {
    rows.push_back({{"op", r.op},
                    {"device", r.device},
                    {"pass", r.pass},
                    {"split", r.split},
                    {"n", r.n},
                    {"mape", number(r.mape)},
                    {"median_ape", number(r.median_ape)},
                    {"within_10", number(r.within_10)},
                    {"rmse_s", number(r.rmse_s)},
                    {"bias", number(r.bias)},
                    {"coverage", number(r.coverage)},
                    {"roofline_mape", number(r.roofline_mape)},
                    {"linear_published_mape", number(r.linear_published_mape)},
                    {"linear_fair_mape", number(r.linear_fair_mape)}});
  }
  return nlohmann::json{{"rows", rows}, {"not_covered", evaluation.not_covered}}.dump(2);
}

}  // namespace forecost
