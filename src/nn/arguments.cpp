// Checks of the arguments of layers.
#include "nn/arguments.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::nn {

void require_positive(const char* layer, const char* what, std::int64_t value) {
  if (value < 1) {
    throw ArgumentError(fmt::format("{}: {} must be positive, got {}", layer, what, value));
  }
}

void require_extent(const char* layer, const char* what, Extent2 value, std::int64_t least) {
  if (value.height >= least && value.width >= least) return;
  throw ArgumentError(fmt::format(
      "{}: {} must be {}, got {}", layer, what, least == 0 ? "zero or more" : "positive",
      value.height == value.width ? fmt::format("{}", value.width)
                                  : fmt::format("{{{}, {}}}", value.height, value.width)));
}

void require_eps(const char* layer, double eps) {
  if (!(eps >= 0)) {
    throw ArgumentError(fmt::format("{}: eps must not be negative, got {}", layer, eps));
  }
}

bool require_channels(const char* layer, const Tensor& x, std::int64_t channels, const char* axes,
                      Leading leading) {
  if (!x.defined()) throw ArgumentError(fmt::format("{}: the input is not a tensor", layer));
  const std::string_view names(axes);
  const int after = 1 + static_cast<int>(std::count(names.begin(), names.end(), ','));
  const Shape& shape = x.shape();
  const bool has_leading = shape.rank() == after + 2;
  const bool fits = has_leading || (leading == Leading::optional && shape.rank() == after + 1);
  if (fits && shape[has_leading ? 1 : 0] == channels) return has_leading;
  const std::string image = fmt::format("{}, {}", channels, names);
  throw ShapeError(fmt::format("{}: expected [n, {}]{}, got {}", layer, image,
                               leading == Leading::optional ? fmt::format(" or [{}]", image) : "",
                               to_string(shape)));
}

}  // namespace volta::nn
