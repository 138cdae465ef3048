// Integers that have a range, checked. Not part of the API.
#pragma once

#include <cstdint>

namespace volta::detail {

// Throws ArgumentError unless `value` is `least` to `most`; the message begins with who asks, and
// names what the value is.
void require_range(const char* who, const char* what, std::int64_t value, std::int64_t least,
                   std::int64_t most);

}  // namespace volta::detail
