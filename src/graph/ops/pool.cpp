// Pooling: checks the arguments, extends one spatial axis to two, and records one node. An average
// over windows that tile the image is a reshape and a mean.
#include <fmt/format.h>

#include "graph/attributes/convolution.h"
#include "graph/attributes/pooling.h"
#include "graph/record/apply.h"
#include "volta/error.h"
#include "volta/pooling.h"

namespace volta {
namespace {

using graph::image_of;
using graph::OpId;
using graph::PoolSpec;
using graph::require_extent;
using graph::Resampling;

// Windows of this extent fit no image. Below it, sums cannot overflow.
constexpr std::int64_t kTooFar = std::int64_t{1} << 61;

struct Arguments {
  const char* op;
  const Tensor& x;
  SourceLocation place;
  int axes;  // number of spatial axes
};

// The extent as the caller wrote it: "7" or "[7, 5]".
std::string text(Extent2 value, const Arguments& in) {
  return in.axes == 1 ? fmt::format("{}", value.width)
                      : fmt::format("[{}, {}]", value.height, value.width);
}

void require_images(const Arguments& in) {
  graph::require_floating(in.op, in.x);
  const Shape& shape = in.x.shape();
  const int least = in.axes + 1;
  if (shape.rank() != least && shape.rank() != least + 1) {
    throw ShapeError(fmt::format("{}: the input needs {} or {} axes, got {}", in.op, least,
                                 least + 1, to_string(shape)));
  }
  for (int axis = shape.rank() - in.axes; axis < shape.rank(); ++axis) {
    if (shape[axis] == 0)
      throw ShapeError(fmt::format("{}: the images of {} are empty", in.op, to_string(shape)));
  }
}

// Turns one-dimensional pooling into pooling of images that are one element high.
Tensor spread(const Arguments& in) { return in.axes == 1 ? in.x.unsqueeze(-2, in.place) : in.x; }
Tensor gathered(const Tensor& y, const Arguments& in) {
  return in.axes == 1 ? y.squeeze(-2, in.place) : y;
}

Shape resized(const char* op, const Shape& shape, std::int64_t height, std::int64_t width) {
  return shape.with(shape.rank() - 2, height, op).with(shape.rank() - 1, width, op);
}

// The number of windows along an axis of the image.
std::int64_t windows_along(const Arguments& in, const PoolSpec& spec, bool ceil, bool high) {
  const auto of = [&](Extent2 e) { return high ? e.height : e.width; };
  const std::int64_t kernel = of(spec.kernel), stride = of(spec.stride), padding = of(spec.padding),
                     dilation = of(spec.dilation);
  const std::int64_t reach =
      kernel - 1 > kTooFar / dilation ? kTooFar : dilation * (kernel - 1) + 1;
  if (padding > kernel / 2) {
    throw ArgumentError(fmt::format("{}: the padding {} is more than half of the window {}", in.op,
                                    text(spec.padding, in), text(spec.kernel, in)));
  }
  const Shape& shape = in.x.shape();
  const std::int64_t size = high ? shape[shape.rank() - 2] : shape[shape.rank() - 1];
  const std::int64_t room = size + 2 * padding - reach;
  std::int64_t more = room < 0 ? 0 : room / stride;
  // A window that would begin in the padding at the end is not counted.
  if (ceil && room > 0 && room % stride != 0 && (more + 1) * stride < size + padding) ++more;
  if (room < 0 && !(ceil && room > -stride)) {
    throw ShapeError(fmt::format("{}: the window {} reaches beyond the padded input {}", in.op,
                                 text(spec.kernel, in), to_string(shape)));
  }
  return more + 1;
}

// A stride of 0 stands for the kernel's size.
PoolSpec completed(const Arguments& in, const PoolSpec& given) {
  const Extent2 none(in.axes == 1 ? 1 : 0, 0);
  return {.kernel = given.kernel,
          .stride = given.stride == none ? given.kernel : given.stride,
          .padding = given.padding,
          .dilation = given.dilation,
          .count_padding = given.count_padding};
}

// Checks everything and returns the shape of the result.
Shape checked(const Arguments& in, const PoolSpec& spec, bool ceil) {
  require_images(in);
  require_extent(in.op, "the kernel", spec.kernel, 1, in.axes);
  require_extent(in.op, "the stride", spec.stride, 1, in.axes);
  require_extent(in.op, "the padding", spec.padding, 0, in.axes);
  require_extent(in.op, "the dilation", spec.dilation, 1, in.axes);
  const Shape shape = in.axes == 1 ? in.x.shape().inserted(in.x.rank() - 1, 1) : in.x.shape();
  return resized(in.op, shape, in.axes == 1 ? 1 : windows_along(in, spec, ceil, true),
                 windows_along(in, spec, ceil, false));
}

Tensor largest(const Arguments& in, const PoolSpec& given, bool ceil) {
  const PoolSpec spec = completed(in, given);
  const Shape shape = checked(in, spec, ceil), shapes[] = {shape, shape};
  const bool small = spec.kernel.height <= 256 / spec.kernel.width;
  const DType dtypes[] = {in.x.dtype(), small ? DType::u8 : DType::i32};
  const Tensor x = spread(in);
  return gathered(
      graph::apply_multi(OpId::max_pool, {&x, 1}, spec.attrs(), shapes, dtypes, in.place)[0], in);
}

Tensor average(const Arguments& in, const PoolSpec& given, bool ceil) {
  const PoolSpec spec = completed(in, given);
  const Shape shape = checked(in, spec, ceil);
  const Tensor x = spread(in);
  return gathered(graph::apply(OpId::avg_pool, {&x, 1}, spec.attrs(), shape, x.dtype(), in.place),
                  in);
}

Tensor adaptive(const Arguments& in, Extent2 size) {
  require_images(in);
  require_extent(in.op, "the size", size, 1, in.axes);
  const Tensor x = spread(in);
  const Extent2 image = image_of(x.shape());
  const Shape shape = resized(in.op, x.shape(), size.height, size.width);
  if (image.height % size.height == 0 && image.width % size.width == 0) {
    const std::int64_t images = x.numel() / (image.height * image.width);
    const Tensor cut = graph::reshape_to(
        x, {images, size.height, image.height / size.height, size.width, image.width / size.width},
        in.place);
    return gathered(graph::reshape_to(cut.mean({2, 4}, false, in.place), shape, in.place), in);
  }
  const auto mode = static_cast<std::int64_t>(Resampling::mean);
  return gathered(graph::apply(OpId::resample, {x}, {mode}, shape, x.dtype(), in.place), in);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Extent2 kernel, MaxPool2dOptions options, SourceLocation place) {
  return largest({"max_pool2d", x, place, 2},
                 {.kernel = kernel,
                  .stride = options.stride,
                  .padding = options.padding,
                  .dilation = options.dilation},
                 options.ceil_mode);
}
Tensor max_pool1d(const Tensor& x, std::int64_t kernel, MaxPool1dOptions options,
                  SourceLocation place) {
  return largest({"max_pool1d", x, place, 1},
                 {.kernel = {1, kernel},
                  .stride = {1, options.stride},
                  .padding = {0, options.padding},
                  .dilation = {1, options.dilation}},
                 options.ceil_mode);
}

Tensor avg_pool2d(const Tensor& x, Extent2 kernel, AvgPool2dOptions options, SourceLocation place) {
  return average({"avg_pool2d", x, place, 2},
                 {.kernel = kernel,
                  .stride = options.stride,
                  .padding = options.padding,
                  .count_padding = options.count_include_pad},
                 options.ceil_mode);
}
Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, AvgPool1dOptions options,
                  SourceLocation place) {
  return average({"avg_pool1d", x, place, 1},
                 {.kernel = {1, kernel},
                  .stride = {1, options.stride},
                  .padding = {0, options.padding},
                  .count_padding = options.count_include_pad},
                 options.ceil_mode);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Extent2 size, SourceLocation place) {
  return adaptive({"adaptive_avg_pool2d", x, place, 2}, size);
}
Tensor Tensor::max_pool2d(Extent2 kernel, SourceLocation place) const {
  return volta::max_pool2d(*this, kernel, {}, place);
}
Tensor Tensor::max_pool2d(Extent2 kernel, MaxPool2dOptions options, SourceLocation place) const {
  return volta::max_pool2d(*this, kernel, options, place);
}
Tensor Tensor::avg_pool2d(Extent2 kernel, SourceLocation place) const {
  return volta::avg_pool2d(*this, kernel, {}, place);
}
Tensor Tensor::avg_pool2d(Extent2 kernel, AvgPool2dOptions options, SourceLocation place) const {
  return volta::avg_pool2d(*this, kernel, options, place);
}
Tensor Tensor::adaptive_avg_pool2d(Extent2 size, SourceLocation place) const {
  return volta::adaptive_avg_pool2d(*this, size, place);
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size, SourceLocation place) {
  return adaptive({"adaptive_avg_pool1d", x, place, 1}, {1, size});
}

}  // namespace volta
