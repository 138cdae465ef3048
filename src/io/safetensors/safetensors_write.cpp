// Writes safetensors. The header is padded with spaces so that the data starts at a multiple of
// eight; the data is ordered by element size.
#include <algorithm>
#include <numeric>
#include <set>

#include "encoding/json.h"
#include "io/safetensors/safetensors_checksums.h"
#include "io/safetensors/safetensors_format.h"
#include "io/safetensors/safetensors_writer.h"
#include "volta/error.h"
#include "volta/safetensors.h"

namespace volta {
namespace io {
namespace {

void check_text(const std::string& context, const char* what, const std::string& text) {
  if (valid_utf8_prefix(text) != text.size())
    throw ArgumentError(context + what + " is not valid UTF-8");
}

void check_names(const std::string& context, std::span<const TensorInfo> tensors) {
  std::set<std::string_view> seen;
  for (const TensorInfo& tensor : tensors) {
    check_text(context, "a tensor's name", tensor.name);
    if (tensor.name == kMetadataKey || !seen.insert(tensor.name).second)
      throw ArgumentError(context + "tensor name " + json_quoted(tensor.name) +
                          (tensor.name == kMetadataKey ? " is reserved" : " occurs twice"));
  }
}

std::string metadata_text(const std::string& context, const SafetensorsMetadata& metadata) {
  std::string text = json_quoted(kMetadataKey) + ":{";
  for (const auto& [key, value] : metadata) {
    check_text(context, "a metadata key", key);
    check_text(context, "a metadata value", value);
    if (text.back() != '{') text += ",";
    text += json_quoted(key) + ":" + json_quoted(value);
  }
  return text += "}";
}

std::string entry_text(const TensorInfo& tensor, std::uint64_t begin, std::uint64_t end) {
  std::string sizes;
  for (const std::int64_t size : tensor.shape)
    sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  return json_quoted(tensor.name) + ":{\"dtype\":\"" + std::string(safetensors_name(tensor.dtype)) +
         "\",\"shape\":[" + sizes + "],\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

std::vector<std::size_t> aligned_order(std::span<const TensorInfo> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].dtype) > size_of(tensors[b].dtype);
  });
  return order;
}

// Returns the length field and the header.
std::string head_of(const std::string& context, std::span<const TensorInfo> tensors,
                    const std::vector<std::size_t>& order, const SafetensorsMetadata& metadata) {
  std::string header = "{";
  if (!metadata.empty()) header += metadata_text(context, metadata);
  std::uint64_t begin = 0;
  for (const std::size_t position : order) {
    const TensorInfo& tensor = tensors[position];
    const std::uint64_t end = begin + bytes_of(tensor);
    if (header.size() > 1) header += ",";
    header += entry_text(tensor, begin, end);
    begin = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxSafetensorsHeader)
    throw ArgumentError(context + "a header of " + std::to_string(header.size()) +
                        " bytes exceeds the format's limit of " +
                        std::to_string(kMaxSafetensorsHeader));
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i)
    length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header;
}

}  // namespace

std::uint64_t bytes_of(const TensorInfo& tensor) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape.numel()),
                             std::uint64_t{size_of(tensor.dtype)}, &bytes))
    throw ArgumentError("tensor " + json_quoted(tensor.name) + " " + to_string(tensor.shape) +
                        " has more bytes than 64 bits can count");
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(const std::string& function, const std::string& path,
                                     std::span<const TensorInfo> tensors,
                                     const SafetensorsMetadata& metadata,
                                     platform::AtomicFileOptions options)
    : context_(function + ": " + path + ": "),
      tensors_(tensors.begin(), tensors.end()),
      metadata_(metadata),
      order_(aligned_order(tensors)),
      file_(path, options),
      with_checksums_(metadata.contains(kChecksumsKey)) {
  check_names(context_, tensors);
  if (with_checksums_) {
    for (const std::size_t position : order_) checksums_.emplace_back(tensors[position].name, 0);
    set_checksums();
  }
  file_.write(head());
}

void SafetensorsWriter::set_checksums() {
  std::vector<Described> described;
  described.reserve(tensors_.size());
  for (const TensorInfo& tensor : tensors_)
    described.push_back({tensor.name, safetensors_name(tensor.dtype), &tensor.shape});
  metadata_[kChecksumsKey] =
      checksums_text(header_checksum(metadata_, std::move(described)), checksums_);
}

std::string SafetensorsWriter::head() const {
  return head_of(context_, tensors_, order_, metadata_);
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  if (with_checksums_) checksums_.at(next_++).second = checksum_of(data);
  file_.write(data);
}

void SafetensorsWriter::commit() {
  if (with_checksums_) {
    set_checksums();
    file_.write_at(0, head());  // has the same length as the header with zeros
  }
  file_.commit();
}

}  // namespace io

void write_safetensors(const std::string& path, std::span<const TensorData> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<io::TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const TensorData& tensor : tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape});
    if (io::bytes_of(infos.back()) > 0 && tensor.data == nullptr)
      throw ArgumentError("write_safetensors: " + path + ": tensor " +
                          io::json_quoted(tensor.name) + " " + to_string(tensor.shape) +
                          " has no data");
  }
  io::SafetensorsWriter file("write_safetensors", path, infos, metadata);
  for (const std::size_t position : file.order())
    file.write({static_cast<const std::byte*>(tensors[position].data),
                static_cast<std::size_t>(io::bytes_of(infos[position]))});
  file.commit();
}

}  // namespace volta
