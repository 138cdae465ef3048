// Elements of dtypes that Volta does not have, as those of one that holds all their values.
#pragma once

#include <cstddef>
#include <vector>

#include "volta/export.h"
#include "volta/safetensors.h"

namespace volta::io {

// The elements of an entry whose content is `widened`, as its dtype. Throws IoError for a U64
// beyond i64.
VOLTA_BACKEND_API std::vector<std::byte> widened(const SafetensorsFile& file,
                                                 const TensorEntry& entry);

}  // namespace volta::io
