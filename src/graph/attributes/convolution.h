// The attributes of a two-dimensional convolution's nodes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "volta/convolution.h"
#include "volta/shape.h"

namespace volta::graph {

struct ConvSpec {
  Extent2 stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool tf32 = false;

  std::array<std::int64_t, 8> attrs() const {
    return {stride.height,   stride.width,   padding.height, padding.width,
            dilation.height, dilation.width, groups,         tf32};
  }
  static ConvSpec of(std::span<const std::int64_t> attrs) {
    return {.stride = {attrs[0], attrs[1]},
            .padding = {attrs[2], attrs[3]},
            .dilation = {attrs[4], attrs[5]},
            .groups = attrs[6],
            .tf32 = attrs[7] != 0};
  }
  // The extent of the weight's kernel, including dilation.
  Extent2 reach(const Shape& weight) const {
    return {dilation.height * (weight[2] - 1) + 1, dilation.width * (weight[3] - 1) + 1};
  }
};

// Throws ArgumentError "<op>: <what> must be positive, got ..." if a value is below `least`, which
// is 0 or 1. With one axis, the message shows only the width.
void require_extent(const char* op, const char* what, Extent2 value, std::int64_t least, int axes);

}  // namespace volta::graph
