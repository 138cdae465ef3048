// Layers that change shapes.
#include "volta/nn/shape_layers.h"

#include <algorithm>
#include <utility>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {

Tensor Identity::forward(const Tensor& x) { return x; }

Tensor Flatten::forward(const Tensor& x) { return x.flatten(start_dim_, end_dim_); }

Unflatten::Unflatten(std::int64_t dim, std::vector<std::int64_t> sizes)
    : dim_(dim), sizes_(std::move(sizes)) {
  if (sizes_.empty()) throw ArgumentError("Unflatten: there must be sizes");
  if (std::count(sizes_.begin(), sizes_.end(), -1) > 1) {
    throw ArgumentError("Unflatten: only one size can be -1");
  }
}
Tensor Unflatten::forward(const Tensor& x) { return x.unflatten(dim_, sizes_); }

PixelShuffle::PixelShuffle(std::int64_t upscale_factor) : factor_(upscale_factor) {
  require_positive("PixelShuffle", "upscale_factor", upscale_factor);
}
Tensor PixelShuffle::forward(const Tensor& x) { return pixel_shuffle(x, factor_); }

PixelUnshuffle::PixelUnshuffle(std::int64_t downscale_factor) : factor_(downscale_factor) {
  require_positive("PixelUnshuffle", "downscale_factor", downscale_factor);
}
Tensor PixelUnshuffle::forward(const Tensor& x) { return pixel_unshuffle(x, factor_); }

Upsample::Upsample(InterpolateOptions options) : options_(options) {
  if ((options.size != Extent2(0)) == (options.scale != Factor2(0))) {
    throw ArgumentError("Upsample: either the size or the scale must be given");
  }
  if (options.align_corners && options.mode == InterpolateMode::nearest) {
    throw ArgumentError("Upsample: align_corners is of the mode bilinear");
  }
}
Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options_); }

}  // namespace volta::nn
