// The attributes of pooling and resizing nodes. Images are the last two axes of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "volta/convolution.h"
#include "volta/shape.h"

namespace volta::graph {

struct PoolSpec {
  Extent2 kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool count_padding = true;  // used by averages

  std::array<std::int64_t, 9> attrs() const {
    return {kernel.height, kernel.width,    stride.height,  stride.width, padding.height,
            padding.width, dilation.height, dilation.width, count_padding};
  }
  static PoolSpec of(std::span<const std::int64_t> attrs) {
    return {.kernel = {attrs[0], attrs[1]},
            .stride = {attrs[2], attrs[3]},
            .padding = {attrs[4], attrs[5]},
            .dilation = {attrs[6], attrs[7]},
            .count_padding = attrs[8] != 0};
  }
};

// How an element of a resized image is computed, along each axis. Except for `mean`, the node has
// the ratio of the sizes as an input for each axis.
enum class Resampling : std::int64_t {
  nearest,
  bilinear,
  aligned,  // bilinear; the corner pixels of both images coincide
  mean,
};

inline Extent2 image_of(const Shape& shape) {
  return {shape[shape.rank() - 2], shape[shape.rank() - 1]};
}

}  // namespace volta::graph
