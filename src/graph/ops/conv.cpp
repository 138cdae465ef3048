// Convolutions: check the arguments, extend one spatial axis to two, and record one node. The three
// nodes (a convolution and its gradients with respect to the input and the weight) are gradients of
// each other.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/attributes/convolution.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/recorder.h"
#include "volta/error.h"

namespace volta {

namespace graph {

void require_extent(const char* op, const char* what, Extent2 value, std::int64_t least, int axes) {
  if (value.height >= least && value.width >= least) return;
  const bool one = axes == 1 || value.height == value.width;
  throw ArgumentError(fmt::format(
      "{}: {} must be {}, got {}", op, what, least == 0 ? "zero or more" : "positive",
      one ? fmt::format("{}", value.width) : fmt::format("{{{}, {}}}", value.height, value.width)));
}

}  // namespace graph

namespace {

using graph::ConvSpec;
using graph::OpId;

// Strides, paddings, dilations and kernel sizes from here on fit no image. Below it, a product of
// two cannot overflow.
constexpr std::int64_t kTooFar = std::int64_t{1} << 31;

struct Arguments {
  const char* op;
  Tensor x, weight, bias;
  SourceLocation place;
  int axes;             // number of spatial axes
  Shape given = {};     // the shape of x that the caller passed
  bool single = false;  // x is one image without a batch axis
};

// Checks that are common to all convolutions.
void check(Arguments& in, const ConvSpec& spec, bool transposed) {
  graph::require_floating(in.op, in.x);
  graph::require_defined(in.op, in.weight, "the weight");
  if (const auto wanted = graph::autocast_dtype(transposed ? OpId::conv_input_grad : OpId::conv,
                                                {&in.x, &in.weight, &in.bias})) {
    for (Tensor* operand : {&in.x, &in.weight, &in.bias})
      *operand = graph::autocast(*operand, *wanted, in.place);
  }
  graph::require_extent(in.op, "the stride", spec.stride, 1, in.axes);
  graph::require_extent(in.op, "the padding", spec.padding, 0, in.axes);
  graph::require_extent(in.op, "the dilation", spec.dilation, 1, in.axes);
  const std::pair<const char*, Extent2> extents[] = {
      {"the stride", spec.stride}, {"the padding", spec.padding}, {"the dilation", spec.dilation}};
  for (const auto& [what, value] : extents) {
    if (const std::int64_t most = std::max(value.height, value.width); most >= kTooFar)
      throw ArgumentError(fmt::format("{}: {} must be below 2^31, got {}", in.op, what, most));
  }
  if (spec.groups < 1) {
    throw ArgumentError(
        fmt::format("{}: the number of groups must be positive, got {}", in.op, spec.groups));
  }
  in.given = in.x.shape();
  const Shape &sx = in.given, &sw = in.weight.shape();
  const int rank = in.axes + 2;
  in.single = sx.rank() == rank - 1;
  if ((sx.rank() != rank && !in.single) || sw.rank() != rank) {
    throw ShapeError(fmt::format("{}: the input needs {} or {} axes, the weight {}, got {} and {}",
                                 in.op, rank - 1, rank, rank, to_string(sx), to_string(sw)));
  }
  const std::int64_t given_channels = sx[in.single ? 0 : 1];
  if (in.weight.dtype() != in.x.dtype()) {
    throw DTypeError(fmt::format("{}: input is {}, weight is {}", in.op, name_of(in.x.dtype()),
                                 name_of(in.weight.dtype())));
  }
  if (sw[0] % spec.groups != 0 || (!transposed && given_channels % spec.groups != 0)) {
    throw ShapeError(fmt::format("{}: {} groups do not divide the channels of {} and {}", in.op,
                                 spec.groups, to_string(sx), to_string(sw)));
  }
  const std::int64_t channels = transposed ? sw[0] : sw[1] * spec.groups;
  if (given_channels != channels) {
    throw ShapeError(
        fmt::format("{}: input {} does not fit weight {}{}", in.op, to_string(sx), to_string(sw),
                    spec.groups == 1 ? "" : fmt::format(" in {} groups", spec.groups)));
  }
  for (int axis = 2; axis < rank; ++axis) {
    if (sw[axis] < 1)
      throw ShapeError(fmt::format("{}: the kernel {} is empty", in.op, to_string(sw)));
    if (sw[axis] >= kTooFar)
      throw ShapeError(fmt::format("{}: the kernel {} is too large", in.op, to_string(sw)));
  }
  const std::int64_t out = transposed ? sw[1] * spec.groups : sw[0];
  if (in.bias.defined()) {
    if (in.bias.rank() != 1 || in.bias.shape()[0] != out) {
      throw ShapeError(fmt::format("{}: bias {} does not fit weight {}", in.op,
                                   to_string(in.bias.shape()), to_string(sw)));
    }
    if (in.bias.dtype() != in.x.dtype()) {
      throw DTypeError(fmt::format("{}: input is {}, bias is {}", in.op, name_of(in.x.dtype()),
                                   name_of(in.bias.dtype())));
    }
  }
  Tensor inputs[3] = {in.x, in.weight, in.bias};
  graph::agree_on_device(in.op, {inputs, in.bias.defined() ? 3u : 2u}, in.place);
  in.x = in.single ? inputs[0].unsqueeze(0, in.place) : inputs[0];
  in.weight = inputs[1];
  in.bias = inputs[2];
}

// Turns a one-dimensional convolution into one of images that are one element high.
void spread(Arguments& in) {
  in.x = in.x.unsqueeze(2, in.place);
  in.weight = in.weight.unsqueeze(2, in.place);
}

Tensor record(OpId op, const Arguments& in, const ConvSpec& spec, const Shape& shape) {
  graph::require_countable(in.op, shape, in.x.dtype());
  const graph::Borrowed inputs[3] = {in.x, in.weight, in.bias};
  return graph::apply(op, std::span(inputs, in.bias.defined() ? 3 : 2), spec.attrs(), shape,
                      in.x.dtype(), in.place);
}

// Removes from the result the axes that were added to the caller's input.
Tensor as_given(Tensor y, const Arguments& in) {
  if (in.axes == 1) y = y.squeeze(2, in.place);
  return in.single ? y.squeeze(0, in.place) : y;
}

Tensor convolved(Arguments in, const ConvSpec& spec) {
  check(in, spec, false);
  const Shape kernel = in.weight.shape();
  if (in.axes == 1) spread(in);
  const Shape &sx = in.x.shape(), &sw = in.weight.shape();
  const Extent2 reach = spec.reach(sw);
  const std::int64_t room_h = sx[2] + 2 * spec.padding.height - reach.height,
                     room_w = sx[3] + 2 * spec.padding.width - reach.width;
  if (room_h < 0 || room_w < 0) {
    throw ShapeError(fmt::format("{}: the kernel {} reaches beyond the padded input {}", in.op,
                                 to_string(kernel), to_string(in.given)));
  }
  const std::int64_t sizes[] = {sx[0], sw[0], room_h / spec.stride.height + 1,
                                room_w / spec.stride.width + 1};
  return as_given(record(OpId::conv, in, spec, Shape(sizes, in.op)), in);
}

Tensor transposed(Arguments in, const ConvSpec& spec, Extent2 output_padding) {
  check(in, spec, true);
  graph::require_extent(in.op, "the output padding", output_padding, 0, in.axes);
  const auto fits = [](std::int64_t more, std::int64_t stride, std::int64_t dilation) {
    return more < stride || more < dilation;
  };
  if (!fits(output_padding.height, spec.stride.height, spec.dilation.height) ||
      !fits(output_padding.width, spec.stride.width, spec.dilation.width)) {
    throw ArgumentError(
        fmt::format("{}: the output padding must be smaller than stride or dilation", in.op));
  }
  if (in.axes == 1) spread(in);
  const Shape &sx = in.x.shape(), &sw = in.weight.shape();
  const Extent2 reach = spec.reach(sw);
  const auto length = [&](std::int64_t count, std::int64_t stride, std::int64_t padding,
                          std::int64_t reached, std::int64_t more) {
    std::int64_t steps = 0;
    if (__builtin_mul_overflow(count - 1, stride, &steps) ||
        __builtin_add_overflow(steps, reached + more - 2 * padding, &steps)) {
      throw ShapeError(
          fmt::format("{}: the result of {} grows past 2^63 - 1", in.op, to_string(in.given)));
    }
    return steps;
  };
  const std::int64_t height = length(sx[2], spec.stride.height, spec.padding.height, reach.height,
                                     output_padding.height),
                     width = length(sx[3], spec.stride.width, spec.padding.width, reach.width,
                                    output_padding.width);
  if (sx[2] < 1 || sx[3] < 1 || height < 1 || width < 1) {
    throw ShapeError(
        fmt::format("{}: nothing is left of the result of {}", in.op, to_string(in.given)));
  }
  const std::int64_t sizes[] = {sx[0], sw[1] * spec.groups, height, width};
  return as_given(record(OpId::conv_input_grad, in, spec, Shape(sizes, in.op)), in);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv2dOptions options,
              SourceLocation place) {
  return convolved({"conv2d", x, weight, bias, place, 2}, {.stride = options.stride,
                                                           .padding = options.padding,
                                                           .dilation = options.dilation,
                                                           .groups = options.groups,
                                                           .tf32 = graph::tf32_now()});
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, Conv1dOptions options,
              SourceLocation place) {
  return convolved({"conv1d", x, weight, bias, place, 1}, {.stride = {1, options.stride},
                                                           .padding = {0, options.padding},
                                                           .dilation = {1, options.dilation},
                                                           .groups = options.groups,
                                                           .tf32 = graph::tf32_now()});
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        ConvTranspose2dOptions options, SourceLocation place) {
  return transposed({"conv_transpose2d", x, weight, bias, place, 2},
                    {.stride = options.stride,
                     .padding = options.padding,
                     .dilation = options.dilation,
                     .groups = options.groups,
                     .tf32 = graph::tf32_now()},
                    options.output_padding);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        ConvTranspose1dOptions options, SourceLocation place) {
  return transposed({"conv_transpose1d", x, weight, bias, place, 1},
                    {.stride = {1, options.stride},
                     .padding = {0, options.padding},
                     .dilation = {1, options.dilation},
                     .groups = options.groups,
                     .tf32 = graph::tf32_now()},
                    {0, options.output_padding});
}

}  // namespace volta
