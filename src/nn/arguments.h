// What layers ask of their arguments. Each function throws, with a message that begins with the
// layer's name.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/convolution.h"
#include "volta/device.h"
#include "volta/execution.h"
#include "volta/tensor.h"

namespace volta::nn {

void require_positive(const char* layer, const char* what, std::int64_t value);
// Both are `least` (0 or 1) or more.
void require_extent(const char* layer, const char* what, Extent2 value, std::int64_t least);
void require_eps(const char* layer, double eps);
// [n, channels, ...] with as many axes after the channels as `axes` names, such as "height, width";
// n may be missing unless the layer needs it. Gives whether it is there.
enum class Leading : bool { needed, optional };
bool require_channels(const char* layer, const Tensor& x, std::int64_t channels, const char* axes,
                      Leading leading);

// While it lives, what makes a layer's values runs where they are, if a device was named for them.
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
