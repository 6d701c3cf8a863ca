#pragma once

#include "data/layer.hpp"

// What conv2d and conv_transpose2d, its input gradient as a layer, have in common.

namespace forecost {

/// Of conv2d; conv_transpose2d has all but the last one.
inline constexpr ParameterInfo convolution_parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"in_channels", 1, 1 << 20, std::nullopt, {}, "channels of the input"},
    {"out_channels", 1, 1 << 20, std::nullopt, {}, "channels of the output"},
    {"in_h", 1, 1 << 16, std::nullopt, {}, "height of the input"},
    {"in_w", 1, 1 << 16, std::nullopt, {}, "width of the input"},
    {"kernel_h", 1, 4096, std::nullopt, {}, "height of the kernel"},
    {"kernel_w", 1, 4096, std::nullopt, {}, "width of the kernel"},
    {"stride_h", 1, 4096, 1, {}, "vertical step; of a transposed one, in the output"},
    {"stride_w", 1, 4096, 1, {}, "horizontal step; of a transposed one, in the output"},
    {"pad_top", 0, 4096, 0, {}, "rows of zeros above; of a transposed one, taken off the output"},
    {"pad_bottom", 0, 4096, 0, {}, "the same below"},
    {"pad_left", 0, 4096, 0, {}, "columns of zeros before; of a transposed one, taken off"},
    {"pad_right", 0, 4096, 0, {}, "the same after"},
    {"dilation_h", 1, 4096, 1, {}, "distance of kernel rows"},
    {"dilation_w", 1, 4096, 1, {}, "distance of kernel columns"},
    {"groups", 1, 1 << 20, 1, {}, "independent groups of channels"},
    {"bias", 0, 1, 1, {}, "whether a bias is added"},
    {"activation", 0, 3, 0, EnumNames<Activation>::names, "fused activation"},
};

/// Throws UsageError unless groups divide the channels.
void check_groups(std::string_view op, std::int64_t in_channels, std::int64_t out_channels,
                  std::int64_t groups);

/// Operator::fit of both.
void fit_convolution(LayerDraft& draft, std::span<const ItemShape> inputs);

}  // namespace forecost
