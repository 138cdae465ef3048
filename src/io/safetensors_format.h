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

// Names of the format that stand for dtypes Volta does not have.
inline constexpr std::string_view kOtherSafetensorsNames[] = {
    "F4",      "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E5M2FNUZ", "F8_E4M3FNUZ",
    "F8_E8M0", "I8",      "U16",     "I16",     "U32",     "U64",         "C64"};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // the reference reader's limit
inline constexpr std::string_view kMetadataKey = "__metadata__";

}  // namespace volta::io
