// Writing and comparing the checksums of tensors.
#include "io/safetensors_checksums.h"

#include <fmt/format.h>
#include <zlib.h>

#include "io/json.h"
#include "volta/error.h"

namespace volta::io {

std::uint32_t checksum_of(std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

std::string checksums_text(const std::vector<std::pair<std::string, std::uint32_t>>& checksums) {
  std::string text = "{";
  for (const auto& [name, checksum] : checksums)
    text += fmt::format("{}{}:\"{:08x}\"", text.size() > 1 ? "," : "", json_quoted(name), checksum);
  return text + "}";
}

Checksums::Checksums(const SafetensorsFile& file) : path_(file.path()) {
  const auto found = file.metadata().find(kChecksumsKey);
  if (found == file.metadata().end()) return;
  has_any_ = true;
  const std::string where = path_ + ": " + kChecksumsKey;
  JsonReader reader(found->second, where);
  if (reader.kind() != JsonReader::Kind::object) throw IoError(where + " is not a JSON object");
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    std::string name(*key);
    if (reader.kind() == JsonReader::Kind::string) {
      digits_.emplace(std::move(name), std::string(reader.string()));
    } else {
      reader.skip();
    }
  }
  reader.finish();
}

void Checksums::verify(const TensorEntry& tensor, std::span<const std::byte> bytes) const {
  if (!has_any_) return;
  const auto known = digits_.find(tensor.name);
  if (known == digits_.end())
    throw IoError(fmt::format("{}: tensor {} has no checksum, unlike others of the file", path_,
                              json_excerpt(tensor.name)));
  if (known->second != fmt::format("{:08x}", checksum_of(bytes)))
    throw IoError(fmt::format("{}: tensor {}: the file is damaged: its checksum does not match",
                              path_, json_excerpt(tensor.name)));
}

}  // namespace volta::io
