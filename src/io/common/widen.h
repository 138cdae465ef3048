// Elements of dtypes that Volta does not have, as those of one that holds all their values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "io/owned_bytes.h"
#include "volta/export.h"

namespace volta::io {

// Elements that are stored as the format's dtype `stored`, one of those with the content `widened`
// (safetensors_format.h), as that entry's dtype. Throws IoError, which begins with `source`, for a
// U64 beyond i64.
VOLTA_BACKEND_API OwnedBytes widened(std::string_view stored, std::span<const std::byte> data,
                                     const std::string& source);

}  // namespace volta::io
