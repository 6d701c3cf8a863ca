#include "data/operators/convolution.hpp"

#include <fmt/format.h>

#include "data/layer_draft.hpp"

namespace forecost {

void check_groups(std::string_view op, std::int64_t in_channels, std::int64_t out_channels,
                  std::int64_t groups) {
  if (in_channels % groups == 0 && out_channels % groups == 0) return;
  throw UsageError(
      fmt::format("{}: in_channels={} and out_channels={} must be multiples of groups={}", op,
                  in_channels, out_channels, groups));
}

void fit_convolution(LayerDraft& draft, std::span<const ItemShape> inputs) {
  fit_image(draft, inputs[0], "in_channels", "in_h", "in_w");
}

}  // namespace forecost
