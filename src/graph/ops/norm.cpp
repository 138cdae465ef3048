// Normalisation over channels: batch norm, and group and instance norm, which use layer norm.
#include <fmt/format.h>

#include <cmath>

#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/placing.h"
#include "graph/record/recorder.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/normalization.h"
#include "volta/ops.h"

namespace volta {

using graph::apply_multi;
using graph::is_half;
using graph::OpId;

namespace {

constexpr int kMostAxes = 5;

void require_channels(const char* op, const Tensor& x) {
  graph::require_floating(op, x);
  if (x.rank() < 2 || x.rank() > kMostAxes) {
    throw ShapeError(fmt::format("{}: {} needs [n, channels] and at most {} axes", op,
                                 to_string(x.shape()), kMostAxes));
  }
}

// Requires one number per channel, in x's dtype, or in f32 if x is f16 or bf16.
void require_by_channel(const char* op, const Tensor& x, const Tensor& parameter,
                        const char* which) {
  if (!parameter.defined()) return;
  const Shape channels{x.shape()[1]};
  if (parameter.shape() != channels) {
    throw ShapeError(fmt::format("{}: {} {} is not {}", op, which, to_string(parameter.shape()),
                                 to_string(channels)));
  }
  const DType dtype = parameter.dtype();
  if (dtype != x.dtype() && !(is_half(x.dtype()) && dtype == DType::f32)) {
    throw DTypeError(
        fmt::format("{}: input is {}, {} is {}", op, name_of(x.dtype()), which, name_of(dtype)));
  }
}

void require_eps(const char* op, double eps) {
  if (!(eps >= 0)) throw ArgumentError(fmt::format("{}: eps {} is negative", op, eps));
}

// No gradient flows to running statistics, so they must not require one while history is recorded.
void require_no_gradient(const Tensor& statistics, const char* which) {
  if (statistics.defined() && statistics.requires_grad() && grad_enabled()) {
    throw ArgumentError(fmt::format(
        "batch_norm: {} requires a gradient, but none flows to running statistics", which));
  }
}

// Assigns new running statistics. They keep their dtype and, unless operations are placed, their
// device, and get no history.
void update(const Tensor& running, const Tensor& now, SourceLocation place) {
  const Tensor there = graph::to_assign(now, running, place).to(running.dtype(), place);
  graph::assign_node(running, graph::TensorAccess::variable(there)->node,
                     graph::Assignment::Update);
}

// A layer norm of each group of channels, then a weight and bias per channel.
Tensor by_groups(const char* op, const Tensor& x, std::int64_t groups, const Tensor& weight,
                 const Tensor& bias, double eps, SourceLocation place) {
  require_by_channel(op, x, weight, "weight");
  require_by_channel(op, x, bias, "bias");
  require_eps(op, eps);
  std::int64_t row = x.shape()[1] / groups;
  for (int i = 2; i < x.rank(); ++i) row *= x.shape()[i];
  // Computes in f32, so that f16 and bf16 are rounded only once, at the end.
  const DType inner = is_half(x.dtype()) ? DType::f32 : x.dtype();
  const Tensor rows = graph::reshape_to(x.to(inner, place), {x.shape()[0], groups, row}, place);
  Tensor y = graph::reshape_to(layer_norm(rows, {row}, {}, {}, eps, place), x.shape(), place);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
  sizes[1] = x.shape()[1];
  const auto beside = [&](const Tensor& t) { return graph::reshape_to(t, Shape(sizes), place); };
  if (weight.defined()) y = mul({y, place}, {beside(weight), place});
  if (bias.defined()) y = add({y, place}, {beside(bias), place});
  return y.to(x.dtype(), place);
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, BatchNormOptions options,
                  SourceLocation place) {
  require_channels("batch_norm", x);
  require_by_channel("batch_norm", x, running_mean, "running_mean");
  require_by_channel("batch_norm", x, running_var, "running_var");
  require_by_channel("batch_norm", x, weight, "weight");
  require_by_channel("batch_norm", x, bias, "bias");
  if (running_mean.defined() != running_var.defined()) {
    throw ArgumentError(running_mean.defined() ? "batch_norm: running_mean without running_var"
                                               : "batch_norm: running_var without running_mean");
  }
  require_no_gradient(running_mean, "running_mean");
  require_no_gradient(running_var, "running_var");
  require_eps("batch_norm", options.eps);
  if (!std::isfinite(options.momentum)) {
    throw ArgumentError(fmt::format("batch_norm: momentum {} is not finite", options.momentum));
  }
  const bool keeps = running_mean.defined();
  std::int64_t values = x.shape()[0];
  for (int i = 2; i < x.rank(); ++i) values *= x.shape()[i];
  const bool of_batch = options.training || !keeps;
  if (of_batch && values == 1) {
    throw ArgumentError(fmt::format("batch_norm: expected more than 1 value per channel, got {}",
                                    to_string(x.shape())));
  }
  // x, running mean, running variance, weight and bias, as far as they are given.
  std::vector<Tensor> operands{x};
  for (const Tensor* t : {&running_mean, &running_var, &weight, &bias}) {
    if (t->defined()) operands.push_back(*t);
  }
  graph::agree_on_device("batch_norm", operands, place);
  const Tensor& here = operands[0];
  const Device device = here.device();
  const DType inner = is_half(x.dtype()) ? DType::f32 : x.dtype();
  const Tensor eps = graph::number(options.eps, inner, device);
  std::vector<Tensor> inputs{here};
  const bool by_batch = of_batch && values > 0;  // without values there are no statistics
  if (by_batch) {
    const NoGrad no_grad;  // the gradient of batch_norm includes that of the statistics
    const bool updates = keeps && options.training;
    std::vector<Tensor> of{here, eps};
    if (updates) {
      graph::begin_step(graph::entry_of(running_mean));
      of.insert(of.end(),
                {operands[1], operands[2], graph::number(options.momentum, inner, device)});
    }
    const std::vector<Shape> shapes(updates ? 4 : 2, Shape{x.shape()[1]});
    const std::vector<DType> dtypes(shapes.size(), inner);
    const std::vector<Tensor> statistics =
        apply_multi(OpId::batch_stats, of, {}, shapes, dtypes, place);
    inputs.insert(inputs.end(), {statistics[0], statistics[1], eps});
    if (updates) {
      update(running_mean, statistics[2], place);
      update(running_var, statistics[3], place);
    }
  } else if (of_batch) {
    const TensorOptions like{.dtype = inner, .device = device};
    const Shape channels{x.shape()[1]};
    inputs.insert(inputs.end(), {zeros(channels, like, place), ones(channels, like, place), eps});
  } else {
    inputs.insert(inputs.end(), {operands[1].detach(), operands[2].detach(), eps});
  }
  inputs.insert(inputs.end(), operands.begin() + (keeps ? 3 : 1), operands.end());
  const std::int64_t attrs[] = {by_batch, weight.defined(), bias.defined()};
  return graph::apply(OpId::batch_norm, std::span<const Tensor>(inputs), attrs, x.shape(),
                      x.dtype(), place);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps, SourceLocation place) {
  require_channels("group_norm", x);
  const std::int64_t channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0) {
    throw ArgumentError(
        fmt::format("group_norm: {} channels are no multiple of {} groups", channels, groups));
  }
  if (const auto wanted = graph::autocast_dtype(graph::AutocastRule::full, {&x, &weight, &bias})) {
    const auto cast = [&](const Tensor& tensor) { return graph::autocast(tensor, *wanted, place); };
    return group_norm(cast(x), groups, cast(weight), cast(bias), eps, place);
  }
  return by_groups("group_norm", x, groups, weight, bias, eps, place);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                     SourceLocation place) {
  require_channels("instance_norm", x);
  std::int64_t values = 1;
  for (int i = 2; i < x.rank(); ++i) values *= x.shape()[i];
  if (values == 1) {
    throw ArgumentError(fmt::format("instance_norm: expected more than 1 value per channel, got {}",
                                    to_string(x.shape())));
  }
  return by_groups("instance_norm", x, x.shape()[1], weight, bias, eps, place);
}

}  // namespace volta
