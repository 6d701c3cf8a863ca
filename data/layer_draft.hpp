#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/item_shape.hpp"
#include "data/layer.hpp"

namespace forecost {

/// The parameters of a layer of a network while it is fitted to its inputs: some were given, others
/// follow.
class LayerDraft {
 public:
  explicit LayerDraft(const Operator& op) : op_(&op), values_(op.parameters.size()) {}

  const Operator& op() const { return *op_; }
  /// One per parameter; what was neither given nor follows is absent.
  std::span<std::optional<std::int64_t>> values() { return values_; }

  bool has(std::string_view parameter) const { return values_[index(parameter)].has_value(); }
  /// Given, or following already, or its default; absent otherwise.
  std::optional<std::int64_t> operator[](std::string_view parameter) const;
  /// Unless it was given.
  void fill(std::string_view parameter, std::int64_t value);
  /// It follows from the inputs: throws UsageError where another value was given.
  void follows(std::string_view parameter, std::int64_t value);

 private:
  std::size_t index(std::string_view parameter) const;

  const Operator* op_;
  std::vector<std::optional<std::int64_t>> values_;
};

/// Completes the values of a layer, one per parameter, of which those at `given` were: see
/// Operator::complete.
void complete(const Operator& op, const std::vector<bool>& given, std::span<std::int64_t> values);

// What several operators take from the shapes of their inputs.

/// `channels` and the sides of an image, whatever their names.
void fit_image(LayerDraft& draft, const ItemShape& shape, std::string_view channels,
               std::string_view height, std::string_view width);
/// `features`, all elements of an item.
void fit_features(LayerDraft& draft, std::span<const ItemShape> inputs);
/// `rows` and `features`: of a sequence its positions and their features; of anything else as many
/// rows as were given, or one.
void fit_rows(LayerDraft& draft, std::span<const ItemShape> inputs);

}  // namespace forecost
