// Checksums of tensors in a safetensors file: a CRC-32 for each, in the metadata under
// "volta.crc32", as a JSON object of eight hexadecimal digits by name. Other readers see one more
// text in the metadata.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "volta/safetensors.h"

namespace volta::io {

inline constexpr const char* kChecksumsKey = "volta.crc32";

std::uint32_t checksum_of(std::span<const std::byte> data);
// The text for the metadata; its length depends on the names only.
std::string checksums_text(const std::vector<std::pair<std::string, std::uint32_t>>& checksums);

// The checksums that a file carries. A file without any passes every check.
class Checksums {
 public:
  // Throws IoError if the metadata has something else in their place.
  explicit Checksums(const SafetensorsFile& file);
  // `bytes`: the tensor's, as the file stores them. Throws IoError naming the file and the tensor
  // if they are not those that were written.
  void verify(const TensorEntry& tensor, std::span<const std::byte> bytes) const;

 private:
  std::string path_;
  bool has_any_ = false;
  std::map<std::string, std::string, std::less<>> digits_;  // by the tensor's name
};

}  // namespace volta::io
