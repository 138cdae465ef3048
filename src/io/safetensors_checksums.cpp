#include "io/safetensors_checksums.h"

#include <map>

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

void verify_checksums(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kChecksumsKey);
  if (found == file.metadata().end()) return;
  const std::string where = file.path() + ": " + kChecksumsKey;
  const JsonValue document = parse_json(found->second, where);
  const auto* members = document.as_object();
  if (members == nullptr) throw IoError(where + " is not a JSON object");
  std::map<std::string_view, std::string_view> checksums;
  for (const JsonMember& member : *members)
    if (const std::string* digits = member.value.as_string())
      checksums.emplace(member.key, *digits);
  for (const TensorEntry& tensor : file.tensors()) {
    const auto known = checksums.find(tensor.name);
    if (known == checksums.end())
      throw IoError(fmt::format("{}: tensor {} has no checksum, unlike others of the file",
                                file.path(), json_quoted(tensor.name)));
    if (known->second != fmt::format("{:08x}", checksum_of(file.data(tensor))))
      throw IoError(fmt::format("{}: tensor {}: the file is damaged: its checksum does not match",
                                file.path(), json_quoted(tensor.name)));
  }
}

}  // namespace volta::io
