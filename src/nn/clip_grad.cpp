// Clips gradients in place.
#include "volta/nn/clip_grad.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/detail/optimizer_ops.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/transfers.h"

namespace volta::nn {

namespace {

// Gradients grouped by device, and the index at which each device's group starts.
struct Gradients {
  std::vector<Tensor> all;
  std::vector<std::size_t> starts;
};

std::vector<Tensor> gradients_of(const char* op, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].defined())
      throw ArgumentError(fmt::format("{}: parameter {} is undefined", op, i));
    if (Tensor gradient = parameters[i].grad(); gradient.defined())
      gradients.push_back(std::move(gradient));
  }
  return gradients;
}

Gradients by_device(std::vector<Tensor> gradients) {
  Gradients result;
  while (!gradients.empty()) {
    const Device device = gradients.front().device();
    const auto others =
        std::stable_partition(gradients.begin(), gradients.end(),
                              [&](const Tensor& gradient) { return gradient.device() == device; });
    result.starts.push_back(result.all.size());
    result.all.insert(result.all.end(), gradients.begin(), others);
    gradients.erase(gradients.begin(), others);
  }
  result.starts.push_back(result.all.size());
  return result;
}

}  // namespace

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, ClipOptions options,
                      SourceLocation place) {
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  if (!(max_norm >= 0)) {
    throw ArgumentError(
        fmt::format("clip_grad_norm: max_norm must be zero or more, got {}", max_norm));
  }
  if (!(options.norm_type > 0)) {
    throw ArgumentError(
        fmt::format("clip_grad_norm: norm_type must be positive, got {}", options.norm_type));
  }
  Gradients gradients = by_device(gradients_of("clip_grad_norm", parameters));
  if (gradients.all.empty()) return scalar(0.0);
  const TransferReason reason("clip_grad_norm", place);
  const Device device = gradients.all.front().device();
  std::vector<Tensor> norms;
  for (std::size_t i = 0; i + 1 < gradients.starts.size(); ++i) {
    const std::size_t start = gradients.starts[i];
    const std::span<const Tensor> here(&gradients.all[start], gradients.starts[i + 1] - start);
    norms.push_back(total_norm(here, options.norm_type, place).to(device, place));
  }
  const Tensor norm = norms.size() == 1 ? norms[0] : total_norm(norms, options.norm_type, place);
  if (options.error_if_nonfinite && !std::isfinite(norm.item())) {
    throw ArgumentError(fmt::format(
        "clip_grad_norm: the norm of the gradients is {}; they cannot be clipped", norm.item()));
  }
  const Tensor factor = minimum(
      {div({max_norm, place}, {add({norm, place}, {1e-6, place}), place}), place}, {1.0, place});
  for (Tensor& gradient : gradients.all)
    gradient *= Operand(factor.to(gradient.device(), place), place);
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& parameters, double clip_value,
                     SourceLocation place) {
  const NoGrad no_grad;
  if (!(clip_value >= 0)) {
    throw ArgumentError(
        fmt::format("clip_grad_value: clip_value must be zero or more, got {}", clip_value));
  }
  for (Tensor& gradient : gradients_of("clip_grad_value", parameters)) {
    gradient.copy_(clamp(gradient, Operand(-clip_value, place), Operand(clip_value, place), place),
                   place);
  }
}

}  // namespace volta::nn
