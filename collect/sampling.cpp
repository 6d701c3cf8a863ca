#include "collect/sampling.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/random.hpp"

namespace forecost {

QuasiRandom::QuasiRandom(std::size_t dimensions, std::uint64_t seed) {
  const auto d = static_cast<double>(dimensions);
  double g = 2;
  for (int i = 0; i < 64; ++i) g = std::pow(1 + g, 1 / (d + 1));
  Random random(seed);
  double step = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    step /= g;
    step_.push_back(step);
    at_.push_back(random.uniform());
  }
}

std::span<const double> QuasiRandom::next() {
  for (std::size_t i = 0; i < at_.size(); ++i) {
    at_[i] += step_[i];
    at_[i] -= std::floor(at_[i]);
  }
  return at_;
}

Bound::Bound(const TomlValue& value, const Operator& op) {
  if (!value.is_text()) {
    factors_.push_back({false, value.as_number(), std::nullopt});
    return;
  }
  std::string text = value.as_text();
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  bool divide = false;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("*/", from), text.size());
    const std::string word = text.substr(from, end - from);
    double number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && rest == word.data() + word.size()) {
      if (!(number > 0 && std::isfinite(number))) {
        value.fail(fmt::format("expected positive numbers, found '{}'", word));
      }
      factors_.push_back({divide, number, std::nullopt});
    } else {
      const auto parameters = parameters_of_key(op, word);
      if (parameters.empty()) {
        value.fail(
            fmt::format("expected numbers and parameters joined by * or /, found '{}'", word));
      }
      // Both sides of `side` or `kernel` are equal where it is given as one.
      factors_.push_back({divide, 0, parameters.front()});
      needs_.push_back(parameters.front());
    }
    divide = end < text.size() && text[end] == '/';
    from = end + 1;
  }
}

double Bound::evaluate(std::span<const std::int64_t> values) const {
  double product = 1;
  for (const Factor& factor : factors_) {
    const double x =
        factor.parameter ? static_cast<double>(values[*factor.parameter]) : factor.number;
    product = factor.divide ? product / x : product * x;
  }
  return product;
}

ParameterSpace::ParameterSpace(const Operator& op, const TomlValue& value)
    : source_(value), parameters_(parameters_of_key(op, value.key)) {
  const ParameterInfo& info = op.parameters[parameters_.front()];
  lowest_ = info.min;
  highest_ = info.max;
  if (!value.is_table()) {
    for (const TomlValue& item : value.as_list()) list_.push_back(parameter_value(info, item));
    return;
  }
  value.only({"min", "max", "scale"});
  min_ = Bound(value.at("min"), op);
  max_ = Bound(value.at("max"), op);
  const std::string scale = value.text("scale", "linear");
  if (scale != "linear" && scale != "log") value.at("scale").fail("expected \"linear\" or \"log\"");
  logarithmic_ = scale == "log";
  for (const std::string_view side : {"min", "max"}) {
    const TomlValue& bound = value.at(side);
    if (!bound.is_text()) bound.as_integer(lowest_, highest_);
  }
  if (min_.needs().empty() && max_.needs().empty() && min_.evaluate({}) > max_.evaluate({})) {
    value.fail("expected min to be at most max");
  }
  if (logarithmic_ && min_.needs().empty() && min_.evaluate({}) < 1) {
    value.at("min").fail("expected at least 1 on a log scale");
  }
}

std::vector<std::size_t> ParameterSpace::needs() const {
  std::vector<std::size_t> all(min_.needs().begin(), min_.needs().end());
  all.insert(all.end(), max_.needs().begin(), max_.needs().end());
  return all;
}

std::optional<std::int64_t> ParameterSpace::draw(double u,
                                                 std::span<const std::int64_t> values) const {
  if (!list_.empty()) {
    return list_[static_cast<std::size_t>(u * static_cast<double>(list_.size()))];
  }
  const double low = std::max(std::ceil(min_.evaluate(values)), static_cast<double>(lowest_));
  const double high = std::min(std::floor(max_.evaluate(values)), static_cast<double>(highest_));
  if (low > high) return std::nullopt;
  if (!logarithmic_) return static_cast<std::int64_t>(std::floor(low + u * (high - low + 1)));
  // Half an integer of margin at both ends, so that the ends are as likely as their neighbours.
  const double first = std::log(std::max(low, 1.0) - 0.5), last = std::log(high + 0.5);
  const double x = std::round(std::exp(first + u * (last - first)));
  return static_cast<std::int64_t>(std::clamp(x, low, high));
}

}  // namespace forecost
