// ESPCN.
#include "volta/models/espcn.h"

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/pooling.h"

namespace volta::models {

namespace {

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                const ESPCNOptions& options) {
  return {
      in, out, kernel, {.padding = kernel / 2, .dtype = options.dtype, .device = options.device}};
}

std::int64_t checked(std::int64_t factor) {
  if (factor >= 1) return factor;
  throw ArgumentError(fmt::format("ESPCN: the factor must be positive, got {}", factor));
}

}  // namespace

ESPCN::ESPCN(std::int64_t factor, ESPCNOptions options)
    : conv1(conv(options.channels, 64, 5, options)),
      conv2(conv(64, 64, 3, options)),
      conv3(conv(64, 32, 3, options)),
      conv4(conv(32, options.channels * checked(factor) * factor, 3, options)),
      factor_(factor) {
  add("conv1", conv1);
  add("conv2", conv2);
  add("conv3", conv3);
  add("conv4", conv4);
}

Tensor ESPCN::forward(const Tensor& x) {
  const Tensor h = conv3(conv2(conv1(x).relu()).relu()).relu();
  return pixel_shuffle(conv4(h), factor_);
}

}  // namespace volta::models
