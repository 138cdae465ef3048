// Writing safetensors: the header padded with spaces so that the data starts at a multiple of
// eight.
#include <array>
#include <set>

#include "io/json.h"
#include "io/safetensors_format.h"
#include "platform/files.h"
#include "volta/error.h"
#include "volta/safetensors.h"

namespace volta {
namespace {

void check_text(const std::string& path, const char* what, const std::string& text) {
  if (io::valid_utf8_prefix(text) != text.size())
    throw ArgumentError("write_safetensors: " + path + ": " + what + " is not valid UTF-8");
}

std::uint64_t checked_bytes(const std::string& path, const TensorData& tensor) {
  std::uint64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape.numel()),
                                               std::uint64_t{size_of(tensor.dtype)}, &bytes);
  if (overflow || (bytes > 0 && tensor.data == nullptr))
    throw ArgumentError("write_safetensors: " + path + ": tensor " + io::json_quoted(tensor.name) +
                        " " + to_string(tensor.shape) + " has no data");
  return bytes;
}

void check_names(const std::string& path, std::span<const TensorData> tensors) {
  std::set<std::string_view> seen;
  for (const TensorData& tensor : tensors) {
    check_text(path, "a tensor's name", tensor.name);
    if (tensor.name == io::kMetadataKey || !seen.insert(tensor.name).second)
      throw ArgumentError("write_safetensors: " + path + ": tensor name " +
                          io::json_quoted(tensor.name) +
                          (tensor.name == io::kMetadataKey ? " is reserved" : " occurs twice"));
  }
}

std::string metadata_text(const std::string& path, const SafetensorsMetadata& metadata) {
  std::string text = io::json_quoted(io::kMetadataKey) + ":{";
  for (const auto& [key, value] : metadata) {
    check_text(path, "a metadata key", key);
    check_text(path, "a metadata value", value);
    if (text.back() != '{') text += ",";
    text += io::json_quoted(key) + ":" + io::json_quoted(value);
  }
  return text += "}";
}

std::string entry_text(const TensorData& tensor, std::uint64_t begin, std::uint64_t end) {
  std::string sizes;
  for (const std::int64_t size : tensor.shape)
    sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  return io::json_quoted(tensor.name) + ":{\"dtype\":\"" +
         std::string(io::safetensors_name(tensor.dtype)) + "\",\"shape\":[" + sizes +
         "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorData> tensors,
                       const SafetensorsMetadata& metadata) {
  check_names(path, tensors);
  std::string header = "{";
  if (!metadata.empty()) header += metadata_text(path, metadata);
  std::vector<std::span<const std::byte>> parts(2);  // the length and the header come first
  std::uint64_t begin = 0;
  for (const TensorData& tensor : tensors) {
    const std::uint64_t bytes = checked_bytes(path, tensor);
    if (header.size() > 1) header += ",";
    header += entry_text(tensor, begin, begin + bytes);
    parts.emplace_back(static_cast<const std::byte*>(tensor.data), bytes);
    begin += bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > io::kMaxSafetensorsHeader)
    throw ArgumentError("write_safetensors: " + path + ": a header of " +
                        std::to_string(header.size()) + " bytes exceeds the format's limit of " +
                        std::to_string(io::kMaxSafetensorsHeader));

  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  parts[0] = length;
  parts[1] = std::as_bytes(std::span(header));
  platform::write_file_atomically(path, parts);
}

}  // namespace volta
