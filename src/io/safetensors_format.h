// Names and limits of the safetensors format that its reader and writer share.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "volta/dtype.h"

namespace volta::io {

inline constexpr std::string_view kSafetensorsNames[kDTypeCount] = {"F16", "BF16", "F32", "F64",
                                                                    "I32", "I64",  "U8",  "BOOL"};

constexpr std::string_view safetensors_name(DType dtype) {
  return kSafetensorsNames[static_cast<int>(dtype)];
}

constexpr std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kSafetensorsNames[i] == name) return static_cast<DType>(i);
  return std::nullopt;
}

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // the reference reader's limit
inline constexpr std::string_view kMetadataKey = "__metadata__";

}  // namespace volta::io
