#pragma once

#include <concepts>
#include <string>

namespace forecost {

// Text for people, three significant digits; "-" for NaN.
std::string format_seconds(double seconds);  ///< "1.23 ms", "45.6 us", "2 h 05 min"
std::string format_bytes(double bytes);      ///< "1.50 GB" (powers of 1000)
std::string format_si(double value, const std::string& unit);   ///< "12.3 GFLOP", "210 GFLOP/s"
std::string format_percent(double fraction, int decimals = 1);  ///< 0.123 -> "12.3 %"
std::string format_count(double count);                         ///< "138,357,544"
/// "1 task", "1,903 tasks", "2 corpora"; without a plural it is the singular with an s.
std::string format_counted(double count, const std::string& singular,
                           const std::string& plural = {});
template <std::integral Count>
std::string format_counted(Count count, const std::string& singular,
                           const std::string& plural = {}) {
  return format_counted(static_cast<double>(count), singular, plural);
}

}  // namespace forecost
