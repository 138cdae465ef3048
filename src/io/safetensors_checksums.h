// Checksums of tensors in a safetensors file: a CRC-32 for each, in the metadata under
// "volta.crc32", as a JSON object of eight hexadecimal digits by name. Other readers see one more
// text in the metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "volta/export.h"
#include "volta/safetensors.h"

namespace volta::io {

inline constexpr const char* kChecksumsKey = "volta.crc32";

std::uint32_t checksum_of(std::span<const std::byte> data);
// The text for the metadata; its length depends on the names only.
std::string checksums_text(const std::vector<std::pair<std::string, std::uint32_t>>& checksums);

// Reads through every tensor of a file that has checksums. Throws IoError naming the file and the
// first tensor whose bytes are not those that were written.
VOLTA_BACKEND_API void verify_checksums(const SafetensorsFile& file);

}  // namespace volta::io
