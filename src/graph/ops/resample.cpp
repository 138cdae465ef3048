// Resizes images. Integer factors repeat pixels; other factors are one node with the ratios of the
// sizes as arguments. Pixel shuffles are movement operations.
#include <cmath>

#include <fmt/format.h>

#include "graph/attributes/convolution.h"
#include "graph/attributes/pooling.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "volta/error.h"
#include "volta/pooling.h"

namespace volta {
namespace {

using graph::image_of;
using graph::OpId;
using graph::Resampling;
using graph::reshape_to;

bool is_given(const InterpolateOptions& options) { return options.size != Extent2(0); }

std::int64_t scaled(const Tensor& x, std::int64_t size, double factor) {
  const double result = std::floor(static_cast<double>(size) * factor);
  if (!(factor > 0) || !std::isfinite(factor) || result >= 0x1p62) {
    throw ArgumentError(
        fmt::format("interpolate: the scale {} of {} gives no size", factor, to_string(x.shape())));
  }
  if (result < 1) {
    throw ShapeError(fmt::format("interpolate: nothing is left of {} scaled by {}",
                                 to_string(x.shape()), factor));
  }
  return static_cast<std::int64_t>(result);
}

// Checks everything and returns the size of the result.
Extent2 checked(const Tensor& x, const InterpolateOptions& options) {
  graph::require_floating("interpolate", x);
  if (x.rank() != 4) {
    throw ShapeError(
        fmt::format("interpolate: the input needs 4 axes, got {}", to_string(x.shape())));
  }
  const Extent2 image = image_of(x.shape());
  if (image.height == 0 || image.width == 0) {
    throw ShapeError(fmt::format("interpolate: the images of {} are empty", to_string(x.shape())));
  }
  if (options.align_corners && options.mode == InterpolateMode::nearest)
    throw ArgumentError("interpolate: align_corners is of the mode bilinear");
  if (is_given(options) == (options.scale != Factor2(0)))
    throw ArgumentError("interpolate: either the size or the scale must be given");
  if (is_given(options)) {
    graph::require_extent("interpolate", "the size", options.size, 1, 2);
    return options.size;
  }
  return {scaled(x, image.height, options.scale.height),
          scaled(x, image.width, options.scale.width)};
}

// The distance between elements of the result, measured in elements of the input. It is computed in
// the precision that PyTorch uses.
template <class T>
T ratio(std::int64_t from, std::int64_t to, double factor, bool aligned) {
  if (aligned) return to > 1 ? static_cast<T>(from - 1) / static_cast<T>(to - 1) : T(0);
  if (factor != 0) return static_cast<T>(1 / factor);
  return static_cast<T>(from) / static_cast<T>(to);
}

// Replaces each pixel by a block of copies.
Tensor repeated(const Tensor& x, Extent2 by, const Shape& shape, SourceLocation place) {
  const Extent2 image = image_of(x.shape());
  const std::int64_t images = x.numel() / (image.height * image.width);
  const Tensor cut = reshape_to(x, {images, image.height, 1, image.width, 1}, place);
  return reshape_to(
      graph::expand_to(cut, {images, image.height, by.height, image.width, by.width}, place), shape,
      place);
}

// The sizes of a pixel shuffle: all leading axes as one, then channels, height and width.
struct Shuffled {
  Shuffled(const char* op, const Tensor& x, std::int64_t factor) {
    graph::require_defined(op, x);
    if (factor < 1)
      throw ArgumentError(fmt::format("{}: the factor must be positive, got {}", op, factor));
    if (x.rank() < 3) {
      throw ShapeError(
          fmt::format("{}: the input needs at least 3 axes, got {}", op, to_string(x.shape())));
    }
    const Shape& shape = x.shape();
    channels = shape[shape.rank() - 3];
    height = shape[shape.rank() - 2];
    width = shape[shape.rank() - 1];
    for (int axis = 0; axis < shape.rank() - 3; ++axis) images *= shape[axis];
  }
  Shape result(const Tensor& x, std::int64_t c, std::int64_t h, std::int64_t w) const {
    const int rank = x.rank();
    return x.shape().with(rank - 3, c).with(rank - 2, h).with(rank - 1, w);
  }
  std::int64_t images = 1, channels, height, width;
};

}  // namespace

Tensor interpolate(const Tensor& x, InterpolateOptions options, SourceLocation place) {
  const Extent2 size = checked(x, options);
  if (const auto wanted = graph::autocast_dtype(graph::AutocastRule::full, {&x}))
    return interpolate(graph::autocast(x, *wanted, place), options, place);
  const Extent2 image = image_of(x.shape());
  const Shape shape =
      x.shape().with(2, size.height, "interpolate").with(3, size.width, "interpolate");
  const bool nearest = options.mode == InterpolateMode::nearest;
  const Extent2 by{size.height / image.height, size.width / image.width};
  const bool whole =
      by.height * image.height == size.height && by.width * image.width == size.width;
  const Factor2 factor{static_cast<double>(by.height), static_cast<double>(by.width)};
  if (nearest && whole && (is_given(options) || options.scale == factor))
    return repeated(x, by, shape, place);

  const auto number = [&](std::int64_t from, std::int64_t to, double scale) {
    return x.dtype() == DType::f64 && !nearest
               ? graph::number(ratio<double>(from, to, scale, options.align_corners), DType::f64,
                               x.device())
               : graph::number(ratio<float>(from, to, scale, options.align_corners), DType::f32,
                               x.device());
  };
  const Tensor inputs[3] = {x, number(image.height, size.height, options.scale.height),
                            number(image.width, size.width, options.scale.width)};
  const auto mode = static_cast<std::int64_t>(nearest                 ? Resampling::nearest
                                              : options.align_corners ? Resampling::aligned
                                                                      : Resampling::bilinear);
  return graph::apply(OpId::resample, inputs, {&mode, 1}, shape, x.dtype(), place);
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t factor, SourceLocation place) {
  const Shuffled s("pixel_shuffle", x, factor);
  if (s.channels / factor % factor != 0 || s.channels % factor != 0) {
    throw ShapeError(
        fmt::format("pixel_shuffle: blocks of {} x {} do not divide the channels of {}", factor,
                    factor, to_string(x.shape())));
  }
  const std::int64_t channels = s.channels / factor / factor, order[] = {0, 1, 4, 2, 5, 3};
  const Tensor cut = reshape_to(x, {s.images, channels, factor, factor, s.height, s.width}, place);
  return reshape_to(cut.permute(order, place),
                    s.result(x, channels, s.height * factor, s.width * factor), place);
}

Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor, SourceLocation place) {
  const Shuffled s("pixel_unshuffle", x, factor);
  if (s.height % factor != 0 || s.width % factor != 0) {
    throw ShapeError(
        fmt::format("pixel_unshuffle: blocks of {} x {} do not divide the images of {}", factor,
                    factor, to_string(x.shape())));
  }
  const std::int64_t height = s.height / factor, width = s.width / factor,
                     order[] = {0, 1, 3, 5, 2, 4};
  const Tensor cut = reshape_to(x, {s.images, s.channels, height, factor, width, factor}, place);
  return reshape_to(cut.permute(order, place),
                    s.result(x, s.channels * factor * factor, height, width), place);
}

}  // namespace volta
