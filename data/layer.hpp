#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/vocabulary.hpp"
#include "data/work.hpp"

namespace forecost {

class Layer;
class LayerDraft;    // data/layer_draft.hpp
class ItemShape;     // data/item_shape.hpp
struct SamePadding;  // data/operators/window.hpp

/// One integer parameter of an operator. Its name is the key in TOML files and the corpus column.
struct ParameterInfo {
  std::string_view name;
  std::int64_t min, max;                      ///< inclusive
  std::optional<std::int64_t> default_value;  ///< absent: must be given
  /// Of an enumeration: value i is called value_names[i]; empty for plain integers.
  std::span<const std::string_view> value_names = {};
  std::string_view description = {};
};

/// An operator: its parameters, passes and formulas. One file in data/operators/ defines each, one
/// line in data/operators.cpp registers it; sweeps, corpus columns, keys and network files follow.
/// Constant-initialised (`constinit`), so that layers may exist before main.
struct Operator {
  std::string_view name;
  Family family;                              ///< of every pass but `update`, see family_of
  std::span<const ParameterInfo> parameters;  ///< the first one is `batch`
  std::span<const Pass> passes;
  /// Throws UsageError where parameters contradict each other ("in_channels=6 is not a multiple of
  /// groups=4"); each parameter is already within its own range.
  void (*check)(const Layer&);
  /// FLOPs and bytes of one pass; `optimizer` matters to `update` only.
  Work (*work)(const Layer&, Pass, DType, Optimizer);
  /// Elements of each tensor that the optimizer updates (weights, bias); empty if none.
  std::vector<std::int64_t> (*parameter_tensors)(const Layer&);
  /// Elements of the input and of the output, over the whole batch.
  std::int64_t (*input_elements)(const Layer&);
  std::int64_t (*output_elements)(const Layer&);
  /// What padding = "same" means along a side; nullptr of operators that do not pad.
  SamePadding (*same_padding)(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                              std::int64_t dilation) = nullptr;

  /// Sets what a file need not say of a layer because it follows from what it says, beside the
  /// parameters' own defaults: the stride of a pooling is its kernel. Throws UsageError where
  /// something is missing that nobody can assume.
  void (*complete)(LayerDraft&) = nullptr;

  // Its place in a network; there is one input or more.

  /// Sets those parameters of a layer of one item that follow from the shapes of its inputs.
  /// `batch`, where it is more than one per item, is one of them. Throws UsageError for shapes that
  /// it cannot take; that the inputs have input_elements() in all is checked for all operators.
  void (*fit)(LayerDraft&, std::span<const ItemShape> inputs) = nullptr;
  /// Of one item; nullptr: that of the first input.
  ItemShape (*output_shape)(const Layer&, std::span<const ItemShape> inputs) = nullptr;
  bool training_only = false;  ///< in inference it does nothing

  bool has(Pass pass) const;
  /// Index of a parameter; nullopt if there is none of that name.
  std::optional<std::size_t> index_of(std::string_view parameter) const;
};

/// All operators, in a fixed order; the index is not stored anywhere, the name is.
std::span<const Operator* const> operators();
/// Throws UsageError that lists the known ones.
const Operator& find_operator(std::string_view name);
/// `update` touches parameters only, whatever the operator: memory-bound.
Family family_of(const Operator& op, Pass pass);

/// An operator with a value for each parameter: what is measured and predicted. Always valid.
class Layer {
 public:
  static constexpr std::size_t max_parameters = 24;

  /// Parameters not named take their defaults. Throws UsageError for an unknown, missing, repeated
  /// or out-of-range parameter, and whatever the operator's check finds.
  Layer(const Operator& op, std::span<const std::pair<std::string, std::int64_t>> parameters);
  Layer(std::string_view op,
        std::initializer_list<std::pair<std::string, std::int64_t>> parameters);
  /// One value per parameter of the operator, in its order.
  static Layer of_values(const Operator& op, std::span<const std::int64_t> values);
  /// Reads what text() wrote.
  static Layer parse(std::string_view text);

  const Operator& op() const { return *op_; }
  std::span<const std::int64_t> values() const { return {values_.data(), op_->parameters.size()}; }
  /// Throws std::logic_error for a name the operator does not have.
  std::int64_t operator[](std::string_view parameter) const;
  bool has(std::string_view parameter) const { return op_->index_of(parameter).has_value(); }
  /// A copy with one parameter changed; validated.
  Layer with(std::string_view parameter, std::int64_t value) const;

  /// "conv2d batch=8 in_channels=3 ... activation=relu": the canonical text that keys are made of.
  /// Parameters at their default are left out, so that a later schema with more parameters gives
  /// the same text.
  std::string text() const;

  Work work(Pass pass, DType dtype, Optimizer optimizer = Optimizer::none) const {
    return op_->work(*this, pass, dtype, optimizer);
  }
  std::int64_t parameter_count() const;

  friend bool operator==(const Layer& a, const Layer& b) {
    return a.op_ == b.op_ && a.values_ == b.values_;
  }

 private:
  Layer(const Operator& op, const std::array<std::int64_t, max_parameters>& values);
  void validate() const;

  const Operator* op_;
  std::array<std::int64_t, max_parameters> values_{};
};

}  // namespace forecost
