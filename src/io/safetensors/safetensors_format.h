// Names and limits of the safetensors format, shared by its reader and writer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "volta/dtype.h"
#include "volta/safetensors.h"

namespace volta::io {

inline constexpr std::string_view kSafetensorsNames[kDTypeCount] = {"F16", "BF16", "F32", "F64",
                                                                    "I32", "I64",  "U8",  "BOOL"};

constexpr std::string_view safetensors_name(DType dtype) {
  return kSafetensorsNames[static_cast<int>(dtype)];
}

// A dtype of the format.
struct StoredType {
  std::string_view name;
  std::uint64_t bits;  // bits per element
  DType dtype = DType::u8;
  TensorContent content = TensorContent::unreadable;
};

// Dtypes of the format that Volta lacks.
inline constexpr StoredType kOtherStoredTypes[] = {
    {"I8", 8, DType::i32, TensorContent::widened},
    {"I16", 16, DType::i32, TensorContent::widened},
    {"U16", 16, DType::i32, TensorContent::widened},
    {"U32", 32, DType::i64, TensorContent::widened},
    {"U64", 64, DType::i64, TensorContent::widened},
    {"F8_E4M3", 8, DType::f32, TensorContent::widened},
    {"F8_E5M2", 8, DType::f32, TensorContent::widened},
    {"F4", 4},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8},
    {"F8_E8M0", 8},
    {"C64", 64}};

constexpr std::optional<StoredType> stored_type(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (kSafetensorsNames[i] == name)
      return StoredType{name, 8 * size_of(dtype), dtype, TensorContent::same};
  }
  for (const StoredType& type : kOtherStoredTypes)
    if (type.name == name) return type;
  return std::nullopt;
}

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // the reference reader's limit
inline constexpr std::size_t kMaxMetadata = 100'000;  // entries, of about 150 bytes each
inline constexpr std::string_view kMetadataKey = "__metadata__";

}  // namespace volta::io
