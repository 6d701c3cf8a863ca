#include "data/layer_draft.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace forecost {

std::size_t LayerDraft::index(std::string_view parameter) const {
  const auto index = op_->index_of(parameter);
  if (!index) throw std::logic_error(fmt::format("{} has no parameter {}", op_->name, parameter));
  return *index;
}

std::optional<std::int64_t> LayerDraft::operator[](std::string_view parameter) const {
  const std::size_t i = index(parameter);
  return values_[i] ? values_[i] : op_->parameters[i].default_value;
}

void LayerDraft::fill(std::string_view parameter, std::int64_t value) {
  auto& known = values_[index(parameter)];
  if (!known) known = value;
}

void LayerDraft::follows(std::string_view parameter, std::int64_t value) {
  fill(parameter, value);
  if (const auto given = *values_[index(parameter)]; given != value) {
    throw UsageError(fmt::format("{}={}: its input makes it {}", parameter, given, value));
  }
}

void complete(const Operator& op, const std::vector<bool>& given, std::span<std::int64_t> values) {
  if (op.complete == nullptr) return;
  LayerDraft draft(op);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (given[i]) draft.values()[i] = values[i];
  }
  op.complete(draft);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = draft.values()[i].value_or(values[i]);
}

void fit_image(LayerDraft& draft, const ItemShape& shape, std::string_view channels,
               std::string_view height, std::string_view width) {
  const ItemShape::Image image = shape.image();
  draft.follows(channels, image.channels);
  draft.follows(height, image.height);
  draft.follows(width, image.width);
}

void fit_features(LayerDraft& draft, std::span<const ItemShape> inputs) {
  draft.follows("features", inputs[0].elements());
}

void fit_rows(LayerDraft& draft, std::span<const ItemShape> inputs) {
  if (inputs[0].is_sequence()) draft.fill("rows", inputs[0].sequence().positions);
  draft.fill("features", inputs[0].elements() / *draft["rows"]);
}

}  // namespace forecost
