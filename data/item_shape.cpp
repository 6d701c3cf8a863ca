#include "data/item_shape.hpp"

#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"

namespace forecost {

std::int64_t ItemShape::elements() const {
  return std::accumulate(sides_.begin(), sides_.end(), std::int64_t{1}, std::multiplies<>());
}

std::string ItemShape::text() const { return fmt::format("{}", fmt::join(sides_, "x")); }

ItemShape::Image ItemShape::image() const {
  if (sides_.size() == 1) return {sides_[0], 1, 1};
  if (sides_.size() == 3) return {sides_[0], sides_[1], sides_[2]};
  throw UsageError(
      fmt::format("expected an image of channels x height x width, found a sequence of {} "
                  "positions x features",
                  text()));
}

ItemShape::Sequence ItemShape::sequence() const {
  if (!is_sequence()) {
    throw UsageError(fmt::format("expected a sequence of positions x features, found {}", text()));
  }
  return {sides_[0], sides_[1]};
}

}  // namespace forecost
