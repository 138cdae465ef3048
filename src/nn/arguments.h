// Checks of the arguments of layers. Each function throws an error whose message begins with the
// layer's name.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/convolution.h"
#include "volta/detail/require_range.h"
#include "volta/device.h"
#include "volta/execution.h"
#include "volta/tensor.h"

namespace volta::nn {

// A larger number of layers is a mistake that would exhaust memory or never end.
inline constexpr std::int64_t kMaxLayers = 10'000;
// Sizes up to this can be multiplied by a few gates, heads or directions without an overflow.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;

using volta::detail::require_range;
void require_positive(const char* layer, const char* what, std::int64_t value);
// Both are `least` (0 or 1) or more.
void require_extent(const char* layer, const char* what, Extent2 value, std::int64_t least);
void require_eps(const char* layer, double eps);
// Requires x to be [n, channels, ...] with one axis for each name in `axes`, such as "height,
// width". Returns whether the batch axis n is present; it may be missing if `leading` is optional.
enum class Leading : bool { needed, optional };
bool require_channels(const char* layer, const Tensor& x, std::int64_t channels, const char* axes,
                      Leading leading);

// While it lives, initial values are computed on the device named in the options, if there is one,
// instead of where automatic placement would compute them.
class AsNamed {
 public:
  explicit AsNamed(const std::optional<Device>& device) : context_(options_for(device)) {}

 private:
  static ExecutionOptions options_for(const std::optional<Device>& device) {
    ExecutionOptions options = execution_options();
    if (device) options.placement = Placement::as_written;
    return options;
  }
  ExecutionContext context_;
};

}  // namespace volta::nn
