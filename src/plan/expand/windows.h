// Windows of images, channels last: what they see, and what they add up to where they overlap.
#pragma once

#include "plan/lower/lowering.h"
#include "volta/convolution.h"

namespace volta::graph::expand {

struct Windows {
  Extent2 kernel, stride, padding, dilation;
  Extent2 count;  // how many there are

  Extent2 reach() const {
    return {dilation.height * (kernel.height - 1) + 1, dilation.width * (kernel.width - 1) + 1};
  }
};

// Images [n, h, w, c] as [n, oh, ow, c, kh, kw], `fill` where a window reaches beyond them.
plan::Expr windows_of(plan::Lowering& l, const Windows& windows, plan::Expr images, double fill);
// The size of images; the plan then holds for this size only.
inline Extent2 image_of(const plan::Shape& shape) {
  return {shape[shape.rank() - 2], shape[shape.rank() - 1]};
}
// Adds up what windows [n, oh, ow, kh, kw, c] have at every pixel of images [n, h, w, c].
plan::Expr scattered(plan::Lowering& l, const Windows& windows, plan::Expr seen, Extent2 image);

}  // namespace volta::graph::expand
