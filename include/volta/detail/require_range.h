// Range checks for integer arguments. Not part of the API.
#pragma once

#include <cstdint>

namespace volta::detail {

// Throws ArgumentError unless least <= value <= most. The message begins with `who`, the caller,
// and names the argument `what`.
void require_range(const char* who, const char* what, std::int64_t value, std::int64_t least,
                   std::int64_t most);

}  // namespace volta::detail
