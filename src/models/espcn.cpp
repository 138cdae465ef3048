// ESPCN.
#include "volta/models/espcn.h"

#include "nn/arguments.h"
#include "volta/pooling.h"

namespace volta::models {

namespace {

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                const ESPCNOptions& options) {
  return {
      in, out, kernel, {.padding = kernel / 2, .dtype = options.dtype, .device = options.device}};
}

// Returns the number of channels after checking all sizes, so that no layer is built from a bad
// one.
std::int64_t checked_channels(std::int64_t factor, const ESPCNOptions& options) {
  constexpr std::int64_t kMaxFactor = 1024, kMaxChannels = 1 << 24;
  nn::require_range("ESPCN", "factor", factor, 1, kMaxFactor);
  nn::require_range("ESPCN", "channels", options.channels, 1, kMaxChannels);
  return options.channels;
}

}  // namespace

ESPCN::ESPCN(std::int64_t factor, ESPCNOptions options)
    : conv1(conv(checked_channels(factor, options), 64, 5, options)),
      conv2(conv(64, 64, 3, options)),
      conv3(conv(64, 32, 3, options)),
      conv4(conv(32, options.channels * factor * factor, 3, options)),
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
