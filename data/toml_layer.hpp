#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/layer.hpp"
#include "data/toml.hpp"

// How TOML files (networks, sweeps) write a layer's parameters, besides their own names: `kernel`,
// `stride` and `dilation` for both sides at once, `side` for in_h and in_w (or height and
// width), and `padding` for the
// four pads. All follow from the operator's parameter names, so that a new operator has them at
// once.

namespace forecost {

/// Indices of the parameters that the key sets: "in_h" one, "kernel" kernel_h and kernel_w, ...;
/// empty if the operator knows no such key. `padding` is not among them.
std::vector<std::size_t> parameters_of_key(const Operator& op, std::string_view key);
/// Every key that parameters_of_key knows, and `padding` where the operator pads.
std::vector<std::string> layer_keys(const Operator& op);
bool has_padding(const Operator& op);

/// An integer in the parameter's range, true or false where it is 0 or 1, or a name of its values.
std::int64_t parameter_value(const ParameterInfo& parameter, const TomlValue& value);

/// "same" (output side = ceil(side / stride)), "valid" (none), or that many on each of four sides.
struct Padding {
  bool same = false;
  std::int64_t each = 0;
};
Padding padding_value(const TomlValue& value);
/// Sets the four pads among `values`, one per parameter of the operator, from the other ones.
void apply_padding(const Operator& op, Padding padding, std::span<std::int64_t> values);

}  // namespace forecost
