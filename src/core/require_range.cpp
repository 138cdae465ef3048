// The range check for integers, with its message.
#include "volta/detail/require_range.h"

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::detail {

void require_range(const char* who, const char* what, std::int64_t value, std::int64_t least,
                   std::int64_t most) {
  if (value < least || value > most) {
    throw ArgumentError(
        fmt::format("{}: {} must be {} to {}, got {}", who, what, least, most, value));
  }
}

}  // namespace volta::detail
