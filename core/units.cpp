#include "core/units.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace forecost {

namespace {

/// Three significant digits without an exponent, for values of 0 or between 1 and 999.
std::string three_digits(double value) {
  const double size = std::fabs(value);
  if (size >= 99.95 || size == 0) return fmt::format("{:.0f}", value);
  return size >= 9.995 ? fmt::format("{:.1f}", value) : fmt::format("{:.2f}", value);
}

std::string scaled(double value, const std::string& unit, int lowest, int highest) {
  static constexpr std::array prefixes{"p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
  static constexpr int unity = 4;
  if (!std::isfinite(value)) return "-";
  int step = 0;
  if (value != 0) step = static_cast<int>(std::floor(std::log10(std::fabs(value) * 1.0005) / 3));
  step = std::min(std::max(step, lowest), highest);
  return three_digits(value / std::pow(1000.0, step)) + " " +
         prefixes[static_cast<std::size_t>(unity + step)] + unit;
}

}  // namespace

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (std::fabs(seconds) < 99.95) return scaled(seconds, "s", -4, 0);
  constexpr double year_s = 365.25 * 86400;
  if (std::fabs(seconds) > 100 * year_s) return fmt::format("{:.3g} years", seconds / year_s);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const auto minutes = std::llround(seconds / 60);
  if (minutes < 48 * 60) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {:02} h", minutes / 1440, minutes % 1440 / 60);
}

std::string format_bytes(double bytes) { return scaled(bytes, "B", 0, 6); }

std::string format_si(double value, const std::string& unit) { return scaled(value, unit, -4, 6); }

std::string format_percent(double fraction, int decimals) {
  if (!std::isfinite(fraction)) return "-";
  return fmt::format("{:.{}f} %", fraction * 100, decimals);
}

std::string format_count(double count) {
  if (!std::isfinite(count)) return "-";
  std::string digits = fmt::format("{:.0f}", count);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string format_counted(double count, const std::string& singular, const std::string& plural) {
  const std::string many = plural.empty() ? singular + "s" : plural;
  return format_count(count) + " " + (count == 1 ? singular : many);
}

}  // namespace forecost
