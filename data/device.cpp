#include "data/device.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/hash.hpp"
#include "core/units.hpp"

namespace forecost {

std::span<const AttributeInfo, attribute_count> attribute_table() {
  // Ranges hold anything built since 2010 and whatever a probe may reach, and are narrow enough to
  // refuse the usual mistakes in the unit: MHz or kHz for Hz, GB, MiB or KiB for bytes, GB/s or
  // MB/s for bytes per second, TFLOP/s or GFLOP/s, microseconds, mW or kW, CUDA lanes for
  // multiprocessors, 80 for a capability of 8.0.
  static constexpr AttributeInfo cache{"", "B", 2e5, 1e11}, flops{"", "FLOP/s", 1e8, 1e17},
      rate{"", "B/s", 1e8, 1e15}, link{"", "B/s", 1e7, 1e15};
  const auto named = [](std::string_view name, AttributeInfo info) {
    info.name = name;
    return info;
  };
  static const std::array<AttributeInfo, attribute_count> table{
      AttributeInfo{"memory_bytes", "B", 5e8, 1e14},
      AttributeInfo{"cores", "1", 1, 2000},
      AttributeInfo{"clock_hz", "Hz", 1e8, 1e10},
      AttributeInfo{"memory_clock_hz", "Hz", 1e8, 1e11},
      named("l2_bytes", cache),
      named("llc_bytes", cache),
      named("peak_f32_flops", flops),
      named("peak_tf32_flops", flops),
      named("peak_f16_flops", flops),
      named("peak_bf16_flops", flops),
      named("peak_f64_flops", flops),
      named("peak_int8_flops", flops),
      named("peak_fp8_flops", flops),
      named("bandwidth_bytes_per_s", rate),
      named("interconnect_bytes_per_s", link),
      named("host_link_bytes_per_s", link),
      AttributeInfo{"launch_latency_s", "s", 1e-9, 1e-3},
      AttributeInfo{"power_cap_w", "W", 2, 5e3},
      AttributeInfo{"compute_capability", "1", 1, 20},
      named("probed_f32_flops", flops),
      named("probed_tf32_flops", flops),
      named("probed_f16_flops", flops),
      named("probed_bf16_flops", flops),
      named("probed_f64_flops", flops),
      named("probed_int8_flops", flops),
      named("probed_fp8_flops", flops),
      named("probed_bandwidth_bytes_per_s", rate),
      named("probed_cache_bandwidth_bytes_per_s", rate),
      AttributeInfo{"probed_cache_bytes", "B", 1e4, 1e11},
      AttributeInfo{"probed_launch_latency_s", "s", 1e-9, 0.1},
      named("probed_host_link_bytes_per_s", link),
      named("probed_allreduce_bytes_per_s", link)};
  return table;
}

void Device::set(Attribute a, double value) {
  const AttributeInfo& info = attribute_table()[static_cast<std::size_t>(a)];
  if (!std::isnan(value) && !(value >= info.min && value <= info.max)) {
    throw UsageError(fmt::format("{} = {:g}: expected {:g} to {:g} {}", info.name, value, info.min,
                                 info.max, info.units));
  }
  attributes_[static_cast<std::size_t>(a)] = value;
}

void Device::set_bandwidth_curve(BandwidthCurve curve) {
  constexpr double min_bytes = 1e3, max_bytes = 1e12;
  const AttributeInfo& rates =
      attribute_table()[static_cast<std::size_t>(Attribute::probed_bandwidth_bytes_per_s)];
  for (const auto& [bytes, bytes_per_s] : curve) {
    if (bytes >= min_bytes && bytes <= max_bytes && bytes_per_s >= rates.min &&
        bytes_per_s <= rates.max) {
      continue;
    }
    throw UsageError(
        fmt::format("{} has {} at {}: expected {} to {} at {} to {}", bandwidth_curve_name,
                    format_si(bytes_per_s, "B/s"), format_bytes(bytes), format_si(rates.min, "B/s"),
                    format_si(rates.max, "B/s"), format_bytes(min_bytes), format_bytes(max_bytes)));
  }
  bandwidth_curve_ = std::move(curve);
}

namespace {

/// The peaks of all dtypes follow the f32 one, in the order of DType.
Attribute of_dtype(Attribute f32, DType dtype) {
  return static_cast<Attribute>(static_cast<int>(f32) + static_cast<int>(dtype));
}

}  // namespace

double Device::peak_flops(DType dtype) const {
  const Attribute probed = of_dtype(Attribute::probed_f32_flops, dtype);
  return has(probed) ? (*this)[probed] : (*this)[of_dtype(Attribute::peak_f32_flops, dtype)];
}

double Device::bandwidth_bytes_per_s(Traffic traffic) const {
  const auto probed_else = [&](Attribute probed, Attribute nominal) {
    return has(probed) ? (*this)[probed] : (*this)[nominal];
  };
  switch (traffic) {
    case Traffic::host_link:
      return probed_else(Attribute::probed_host_link_bytes_per_s, Attribute::host_link_bytes_per_s);
    case Traffic::interconnect:
      return probed_else(Attribute::probed_allreduce_bytes_per_s,
                         Attribute::interconnect_bytes_per_s);
    case Traffic::memory:
      break;
  }
  return probed_else(Attribute::probed_bandwidth_bytes_per_s, Attribute::bandwidth_bytes_per_s);
}

bool Device::operator==(const Device& other) const {
  const auto identity = [](const Device& d) {
    return std::tie(d.name, d.vendor, d.kind, d.device_class, d.uuid, d.host);
  };
  return identity(*this) == identity(other) && bandwidth_curve_ == other.bandwidth_curve_ &&
         std::equal(attributes_.begin(), attributes_.end(), other.attributes_.begin(),
                    [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

std::string Device::id() const { return short_id(uuid + "\n" + device_class + "\n" + host); }

std::string cpu_class(std::string_view model, int cores) {
  std::string text;
  for (const char c : model) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  if (text.empty() || text.back() != '-') text += '-';
  return text + fmt::format("{}c", cores);
}

}  // namespace forecost
