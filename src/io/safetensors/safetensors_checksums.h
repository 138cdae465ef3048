// Checksums in a safetensors file: a CRC-32 of each tensor's bytes and one of the rest of the
// header. They are stored in the metadata under "volta.crc32" as a JSON object that maps names to
// eight hexadecimal digits. Other readers see one more metadata entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/safetensors.h"

namespace volta::io {

inline constexpr const char* kChecksumsKey = "volta.crc32";

std::uint32_t checksum_of(std::span<const std::byte> data);

// The description of a tensor in a header. The offset of its data is left out, because the checksum
// of the data covers it.
struct Described {
  std::string_view name, stored;  // `stored` is the dtype's name in the file
  const Shape* shape;
};
// Checksum of the metadata, except its checksums, and of the tensors' descriptions in any order. It
// does not depend on the header's layout, so a program that writes the same content differently
// keeps it valid.
std::uint32_t header_checksum(const SafetensorsMetadata& metadata, std::vector<Described> tensors);

// Returns the text for the metadata. Its length depends on the names only.
std::string checksums_text(std::uint32_t header,
                           const std::vector<std::pair<std::string, std::uint32_t>>& checksums);

// The checksums that a file carries. A file without checksums passes every check. Older files have
// checksums of their tensors only, not of the header.
class Checksums {
 public:
  // Verifies the header's checksum. Throws IoError naming the file if it does not match, or if the
  // metadata has anything but checksums under that key.
  explicit Checksums(const SafetensorsFile& file);
  bool has_any() const { return has_any_; }
  // Verifies a tensor's bytes as stored in the file. Throws IoError naming the file and the tensor
  // if they differ from those that were written.
  void verify(const TensorEntry& tensor, std::span<const std::byte> bytes) const;

 private:
  void read(std::string_view text);
  void verify_header(const SafetensorsFile& file) const;

  std::string path_;
  bool has_any_ = false;
  std::map<std::string, std::string, std::less<>> digits_;  // keyed by the tensor's name
};

}  // namespace volta::io
