#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/measurement.hpp"

// Plain references: every operator once more, by nested loops in f64 and nothing else, so that what
// a backend's library computes can be checked (MEASURING.md rule 15).

namespace forecost {

/// Tensors of a task by name, each in plain row-major layout of the dims that the reference states:
/// "src", "weights", "bias", "dst", "diff_dst", "diff_src", "diff_weights", "diff_bias", ...
using Operands = std::map<std::string, std::vector<double>>;

/// One file in collect/reference/ defines the references of an operator, one line in reference.cpp
/// registers it.
struct Reference {
  std::string_view op;
  /// From the operands of a pass (results among them, which are not looked at but where a result is
  /// random) the results that it must have.
  Operands (*results)(const Task&, const Operands&);
};

/// Whether there is one: for every operator that computes something, in every pass but `update`,
/// whose operands change from run to run.
bool has_reference(const Task& task);
/// Throws std::logic_error without has_reference.
Operands reference(const Task& task, const Operands& operands);

/// The largest difference between a case's results and the reference's, relative to the largest
/// value of that result; which result it is in. Throws std::logic_error where the case lacks a
/// result, or has it in another size.
struct Deviation {
  double relative = 0;
  std::string result;
};
Deviation deviation_from_reference(const Task& task, const Operands& operands);

/// What rounding may make of results: of sums of as many terms as layers have, stored in dtype.
double reference_tolerance(DType dtype);

}  // namespace forecost
