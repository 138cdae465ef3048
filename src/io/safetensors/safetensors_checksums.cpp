// Writes and verifies the checksums of tensors and headers.
#include "io/safetensors/safetensors_checksums.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "encoding/json.h"
#include "io/safetensors/safetensors_format.h"
#include "volta/error.h"

namespace volta::io {
namespace {

// A checksum over a list of texts. Each text is preceded by its length, so that two different lists
// never give the same bytes.
class TextSum {
 public:
  void add(std::string_view text) {
    put(std::to_string(text.size()) + ":");
    put(text);
  }
  std::uint32_t value() const { return static_cast<std::uint32_t>(sum_); }

 private:
  void put(std::string_view text) {
    sum_ = crc32_z(sum_, reinterpret_cast<const Bytef*>(text.data()), text.size());
  }
  uLong sum_ = 0;
};

}  // namespace

std::uint32_t checksum_of(std::span<const std::byte> data) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

std::uint32_t header_checksum(const SafetensorsMetadata& metadata, std::vector<Described> tensors) {
  TextSum sum;
  for (const auto& [key, value] : metadata) {
    if (key == kChecksumsKey) continue;
    sum.add(key);
    sum.add(value);
  }
  std::ranges::sort(tensors, {}, &Described::name);
  for (const Described& tensor : tensors) {
    sum.add(tensor.name);
    sum.add(tensor.stored);
    sum.add(std::to_string(tensor.shape->rank()));
    for (const std::int64_t size : *tensor.shape) sum.add(std::to_string(size));
  }
  return sum.value();
}

// No tensor is named like the metadata key, so the header's checksum is stored under that name.
std::string checksums_text(std::uint32_t header,
                           const std::vector<std::pair<std::string, std::uint32_t>>& checksums) {
  std::string text = fmt::format("{{{}:\"{:08x}\"", json_quoted(kMetadataKey), header);
  for (const auto& [name, checksum] : checksums)
    text += fmt::format(",{}:\"{:08x}\"", json_quoted(name), checksum);
  return text + "}";
}

Checksums::Checksums(const SafetensorsFile& file) : path_(file.path()) {
  const auto found = file.metadata().find(kChecksumsKey);
  if (found == file.metadata().end()) return;
  has_any_ = true;
  read(found->second);
  verify_header(file);
}

void Checksums::read(std::string_view text) {
  const std::string where = path_ + ": " + kChecksumsKey;
  JsonReader reader(text, where);
  if (reader.kind() != JsonReader::Kind::object) throw IoError(where + " is not a JSON object");
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    std::string name(*key);
    if (reader.kind() == JsonReader::Kind::string) {
      digits_.emplace(std::move(name), std::string(reader.string()));
    } else {
      digits_.emplace(std::move(name), "");
      reader.skip();
    }
  }
  reader.finish();
}

// A name without a tensor may be damaged. Accepting it could hide that the header's checksum is
// gone.
void Checksums::verify_header(const SafetensorsFile& file) const {
  for (const auto& [name, digits] : digits_) {
    if (name != kMetadataKey && file.find(name) == nullptr)
      throw IoError(
          fmt::format("{}: the file is damaged: it has a checksum of {}, but no such "
                      "tensor",
                      path_, json_excerpt(name)));
  }
  const auto known = digits_.find(kMetadataKey);
  if (known == digits_.end()) return;
  std::vector<Described> tensors;
  tensors.reserve(file.tensors().size());
  for (const TensorEntry& entry : file.tensors())
    tensors.push_back({entry.name, entry.stored, &entry.shape});
  if (known->second != fmt::format("{:08x}", header_checksum(file.metadata(), std::move(tensors))))
    throw IoError(path_ + ": header: the file is damaged: its checksum does not match");
}

void Checksums::verify(const TensorEntry& tensor, std::span<const std::byte> bytes) const {
  if (!has_any_) return;
  const auto known = digits_.find(tensor.name);
  if (known == digits_.end() || known->second.empty())
    throw IoError(fmt::format("{}: tensor {} has no checksum, unlike others of the file", path_,
                              json_excerpt(tensor.name)));
  if (known->second != fmt::format("{:08x}", checksum_of(bytes)))
    throw IoError(fmt::format("{}: tensor {}: the file is damaged: its checksum does not match",
                              path_, json_excerpt(tensor.name)));
}

}  // namespace volta::io
