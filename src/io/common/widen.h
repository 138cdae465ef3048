// Converts elements of dtypes that Volta lacks to a dtype that holds all their values.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "io/common/owned_bytes.h"
#include "volta/export.h"

namespace volta::io {

// Converts elements of a stored dtype whose content is `widened` (safetensors_format.h) to the
// dtype in its table entry. Throws IoError, with `source` first, for a U64 that does not fit i64.
VOLTA_BACKEND_API OwnedBytes widened(std::string_view stored, std::span<const std::byte> data,
                                     const std::string& source);

}  // namespace volta::io
