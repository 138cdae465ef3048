// Windows of images with channels last: extracting them, and adding them up where they overlap.
#pragma once

#include "plan/lower/lowering.h"
#include "volta/convolution.h"

namespace volta::graph::expand {

// The size of images, or the number of windows in each direction. It may be open.
struct ImageSize {
  plan::Extent height, width;
};

struct Windows {
  Extent2 kernel, stride, padding, dilation;
  ImageSize count;  // the number of windows

  Extent2 reach() const {
    return {dilation.height * (kernel.height - 1) + 1, dilation.width * (kernel.width - 1) + 1};
  }
};

// Extracts the windows of images [n, h, w, c] as [n, oh, ow, c, kh, kw], with `fill` where a window
// extends beyond the image.
plan::Expr windows_of(plan::Lowering& l, const Windows& windows, plan::Expr images, double fill);
// The size of images [.., height, width].
inline ImageSize image_of(const plan::Shape& shape) {
  return {shape[shape.rank() - 2], shape[shape.rank() - 1]};
}
// Adds up windows [n, oh, ow, kh, kw, c] at every pixel of images [n, h, w, c].
plan::Expr scattered(plan::Lowering& l, const Windows& windows, plan::Expr seen,
                     const ImageSize& image);

}  // namespace volta::graph::expand
