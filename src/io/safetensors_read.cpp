// Reading safetensors: eight bytes of header length, a JSON header, then the data of all tensors
// with neither gaps nor overlaps.
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <variant>

#include "io/json.h"
#include "io/safetensors_format.h"
#include "platform/files.h"
#include "volta/error.h"
#include "volta/safetensors.h"

namespace volta {

struct SafetensorsFile::State {
  explicit State(const std::string& file_path) : path(file_path), file(file_path) {}

  std::string path;
  platform::MappedFile file;
  std::vector<TensorEntry> tensors;
  std::unordered_map<std::string_view, const TensorEntry*> by_name;
  SafetensorsMetadata metadata;
};

namespace {

constexpr std::uint64_t kLengthBytes = 8;

class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::span<const std::byte> file)
      : path_(path), file_(file) {}

  // The header's tensors by offset, and its metadata.
  void read(std::vector<TensorEntry>& tensors, SafetensorsMetadata& metadata) {
    const io::JsonValue header = io::parse_json(header_text(), path_ + ": header");
    const auto* members = header.as_object();
    if (members == nullptr) fail("header is not a JSON object");
    for (const io::JsonMember& member : *members) {
      if (member.key == io::kMetadataKey) {
        metadata = read_metadata(member.value);
      } else {
        tensors.push_back(read_tensor(member));
      }
    }
    std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
    });
    check_coverage(tensors);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(path_ + ": " + problem);
  }
  [[noreturn]] void fail_in(const std::string& tensor, const std::string& problem) const {
    fail("tensor " + io::json_quoted(tensor) + ": " + problem);
  }

  std::string_view header_text() {
    if (file_.size() < kLengthBytes)
      fail("not a safetensors file: " + std::to_string(file_.size()) + " bytes, at least 8 needed");
    std::uint64_t length = 0;
    for (std::uint64_t i = kLengthBytes; i-- > 0;)
      length = length << 8 | std::to_integer<std::uint64_t>(file_[i]);
    if (length > io::kMaxSafetensorsHeader)
      fail("header length " + std::to_string(length) + " exceeds the limit of " +
           std::to_string(io::kMaxSafetensorsHeader));
    if (length > file_.size() - kLengthBytes)
      fail("header length " + std::to_string(length) + " exceeds the file (" +
           std::to_string(file_.size()) + " bytes)");
    data_begin_ = kLengthBytes + length;
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes, length);
    if (!text.starts_with('{')) fail("header does not start with '{'");
    return text;
  }

  SafetensorsMetadata read_metadata(const io::JsonValue& value) const {
    SafetensorsMetadata metadata;
    if (std::holds_alternative<io::JsonValue::Null>(value.value)) return metadata;
    const auto* members = value.as_object();
    if (members == nullptr) fail("__metadata__ is not a JSON object");
    for (const io::JsonMember& member : *members) {
      const std::string* text = member.value.as_string();
      if (text == nullptr)
        fail("__metadata__: value of " + io::json_quoted(member.key) + " is not a string");
      metadata.emplace(member.key, *text);
    }
    return metadata;
  }

  TensorEntry read_tensor(const io::JsonMember& member) const {
    const std::string& name = member.key;
    const auto* fields = member.value.as_object();
    if (fields == nullptr) fail_in(name, "its description is not a JSON object");
    const io::JsonValue *dtype = nullptr, *shape = nullptr, *offsets = nullptr;
    for (const io::JsonMember& field : *fields) {  // others are of no concern
      if (field.key == "dtype") {
        dtype = &field.value;
      } else if (field.key == "shape") {
        shape = &field.value;
      } else if (field.key == "data_offsets") {
        offsets = &field.value;
      }
    }
    if (dtype == nullptr) fail_in(name, "no dtype");
    if (shape == nullptr) fail_in(name, "no shape");
    if (offsets == nullptr) fail_in(name, "no data_offsets");
    TensorEntry entry;
    entry.name = name;
    entry.shape = read_shape(name, *shape);
    read_offsets(*offsets, entry);
    read_dtype(*dtype, entry);
    return entry;
  }

  // After shape and offsets. Of a dtype that the format does not have the size is not known.
  void read_dtype(const io::JsonValue& value, TensorEntry& entry) const {
    const std::string* text = value.as_string();
    if (text == nullptr) fail_in(entry.name, "dtype is not a string");
    entry.stored = *text;
    const auto type = io::stored_type(*text);
    entry.dtype = type ? type->dtype : DType::u8;
    entry.content = type ? type->content : TensorContent::unreadable;
    if (!type) return;
    std::uint64_t bits = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(entry.shape.numel()), type->bits,
                               &bits) ||
        bits % 8 != 0 || bits / 8 != entry.bytes) {
      const std::uint64_t begin = entry.offset - data_begin_;
      fail_in(entry.name, range_text(begin, begin + entry.bytes) + " hold " +
                              std::to_string(entry.bytes) + " bytes, which is not the size of " +
                              *text + " " + to_string(entry.shape));
    }
  }

  std::vector<std::int64_t> read_sizes(const std::string& name, const char* field,
                                       const io::JsonValue& value) const {
    const auto* items = value.as_array();
    if (items == nullptr) fail_in(name, std::string(field) + " is not an array");
    std::vector<std::int64_t> sizes;
    for (const io::JsonValue& item : *items) {
      const auto size = item.as_integer();
      if (!size || *size < 0)
        fail_in(name,
                std::string(field) + " holds something other than integers from 0 to 2^63 - 1");
      sizes.push_back(*size);
    }
    return sizes;
  }

  Shape read_shape(const std::string& name, const io::JsonValue& value) const {
    const auto sizes = read_sizes(name, "shape", value);
    try {
      return Shape(std::span<const std::int64_t>(sizes));
    } catch (const ShapeError& error) {
      fail_in(name, error.what());
    }
  }

  static std::string range_text(std::uint64_t begin, std::uint64_t end) {
    return "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
  }

  void read_offsets(const io::JsonValue& value, TensorEntry& entry) const {
    const auto offsets = read_sizes(entry.name, "data_offsets", value);
    if (offsets.size() != 2)
      fail_in(entry.name, "data_offsets has " + std::to_string(offsets.size()) + " values, not 2");
    const auto begin = static_cast<std::uint64_t>(offsets[0]),
               end = static_cast<std::uint64_t>(offsets[1]);
    const std::string range = range_text(begin, end);
    if (begin > end) fail_in(entry.name, range + " end before they begin");
    const std::uint64_t available = file_.size() - data_begin_;
    if (end > available)
      fail_in(entry.name, range + " exceed the data (" + std::to_string(available) + " bytes)");
    entry.offset = data_begin_ + begin;
    entry.bytes = end - begin;
  }

  void check_coverage(const std::vector<TensorEntry>& tensors) const {
    std::uint64_t covered = data_begin_;
    for (const TensorEntry& entry : tensors) {
      if (entry.offset < covered) fail_in(entry.name, "its data overlaps that of another tensor");
      if (entry.offset > covered)
        fail_in(entry.name,
                "preceded by " + std::to_string(entry.offset - covered) + " bytes of no tensor");
      covered += entry.bytes;
    }
    if (covered != file_.size())
      fail(std::to_string(file_.size() - covered) + " bytes of no tensor at the end of the file");
  }

  const std::string& path_;
  std::span<const std::byte> file_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) {
  auto state = std::make_shared<State>(path);
  HeaderReader(state->path, state->file.bytes()).read(state->tensors, state->metadata);
  for (const TensorEntry& entry : state->tensors) state->by_name.emplace(entry.name, &entry);
  state_ = std::move(state);
}

const std::string& SafetensorsFile::path() const { return state_->path; }

const std::vector<TensorEntry>& SafetensorsFile::tensors() const { return state_->tensors; }

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : found->second;
}

const SafetensorsMetadata& SafetensorsFile::metadata() const { return state_->metadata; }

std::span<const std::byte> SafetensorsFile::data(const TensorEntry& entry) const {
  return state_->file.bytes().subspan(entry.offset, entry.bytes);
}

}  // namespace volta
