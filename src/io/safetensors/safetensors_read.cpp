// Reads safetensors: eight bytes with the header's length, a JSON header, then the data of all
// tensors without gaps or overlaps.
#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "encoding/json.h"
#include "io/common/owned_bytes.h"
#include "io/safetensors/safetensors_format.h"
#include "platform/files.h"
#include "platform/memory.h"
#include "volta/error.h"
#include "volta/safetensors.h"

namespace volta {

struct SafetensorsFile::State {
  explicit State(const std::string& file_path) : path(file_path), file(file_path) {}

  std::string path;
  platform::MappedFile file;
  std::vector<TensorEntry> tensors;
  std::vector<std::uint32_t> by_name;  // indices into `tensors`, sorted by name
  SafetensorsMetadata metadata;
};

namespace {

constexpr std::uint64_t kLengthBytes = 8;

// Parses the header's text directly into the table, without building a tree.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, const platform::MappedFile& file)
      : path_(path), mapping_(file), file_(file.bytes()) {}

  // Reads the tensors, sorted by offset, and the metadata.
  void read(std::vector<TensorEntry>& tensors, SafetensorsMetadata& metadata) {
    try {
      const io::OwnedBytes text = header_text();
      tensors.reserve(most_tensors(text_of(text)));
      read_members(text, tensors, metadata);
    } catch (const IoError&) {
      const io::OwnedBytes again = header_text();
      io::JsonReader whole(text_of(again), path_ + ": header");  // invalid JSON is reported first
      whole.skip();
      whole.finish();
      throw;
    }
    std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
    });
    check_coverage(tensors);
  }

 private:
  // The fields of a tensor's description. Of an array the first few numbers and the length are
  // kept.
  struct Sizes {
    static constexpr std::size_t kMost = kMaxRank + 1;
    bool is_array = false, are_sizes = true;
    std::size_t count = 0;
    std::int64_t numbers[kMost] = {};
  };
  struct Fields {
    std::optional<Sizes> shape, offsets;
    bool has_dtype = false, dtype_is_text = false;
  };

  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(path_ + ": " + problem);
  }
  [[noreturn]] void fail_in(const std::string& tensor, const std::string& problem) const {
    fail("tensor " + io::json_excerpt(tensor) + ": " + problem);
  }

  static std::string_view text_of(const io::OwnedBytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size()};
  }

  io::OwnedBytes header_text() {
    if (file_.size() < kLengthBytes)
      fail("not a safetensors file: " + std::to_string(file_.size()) + " bytes, at least 8 needed");
    std::byte bytes[kLengthBytes];
    mapping_.read(0, bytes);
    std::uint64_t length = 0;
    for (std::uint64_t i = kLengthBytes; i-- > 0;)
      length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    if (length > io::kMaxSafetensorsHeader)
      fail("header length " + std::to_string(length) + " exceeds the limit of " +
           std::to_string(io::kMaxSafetensorsHeader));
    if (length > file_.size() - kLengthBytes)
      fail("header length " + std::to_string(length) + " exceeds the file (" +
           std::to_string(file_.size()) + " bytes)");
    data_begin_ = kLengthBytes + length;
    const io::OwnedBytes text(length, path_ + ": header");
    mapping_.read(kLengthBytes, text.bytes());
    if (!text_of(text).starts_with('{')) fail("header does not start with '{'");
    return text;
  }

  // Discards the text as far as it was read, so that the table may take its place in memory.
  void read_members(const io::OwnedBytes& text, std::vector<TensorEntry>& tensors,
                    SafetensorsMetadata& metadata) const {
    constexpr std::size_t kLeastDiscarded = std::size_t{4} << 20;
    io::JsonReader reader(text_of(text), path_ + ": header");
    std::size_t discarded = 0;
    reader.begin_object();
    while (const auto key = reader.next_key()) {
      if (*key == io::kMetadataKey) {
        metadata = read_metadata(reader);
      } else {
        read_tensor(reader, tensors.emplace_back(), std::string(*key));
      }
      if (reader.position() - discarded >= kLeastDiscarded) {
        platform::discard(text.bytes().subspan(discarded, reader.position() - discarded));
        discarded = reader.position();
      }
    }
    reader.finish();
  }

  // An upper bound for the number of tensors: each has this key and takes about 50 bytes.
  static std::size_t most_tensors(std::string_view text) {
    constexpr std::string_view kKey = "\"data_offsets\"";
    constexpr std::size_t kLeastBytes = 48;
    std::size_t count = 0;
    for (std::size_t at = text.find(kKey); at != std::string_view::npos;
         at = text.find(kKey, at + kKey.size()))
      ++count;
    return std::min(count, text.size() / kLeastBytes);
  }

  SafetensorsMetadata read_metadata(io::JsonReader& reader) const {
    using enum io::JsonReader::Kind;
    SafetensorsMetadata metadata;
    if (reader.kind() == null) {
      reader.null();
      return metadata;
    }
    if (reader.kind() != object) fail("__metadata__ is not a JSON object");
    reader.begin_object();
    while (const auto next = reader.next_key()) {
      std::string key(*next);
      if (reader.kind() != string)
        fail("__metadata__: value of " + io::json_excerpt(key) + " is not a string");
      if (metadata.size() == io::kMaxMetadata)
        fail("__metadata__ has more than " + std::to_string(io::kMaxMetadata) + " entries");
      metadata.emplace(std::move(key), reader.string());
    }
    return metadata;
  }

  void read_tensor(io::JsonReader& reader, TensorEntry& entry, std::string name) const {
    using enum io::JsonReader::Kind;
    entry.name = std::move(name);
    if (reader.kind() != object) fail_in(entry.name, "its description is not a JSON object");
    Fields fields;
    reader.begin_object();
    while (const auto key = reader.next_key()) {  // other keys are ignored
      if (*key == "dtype") {
        fields.has_dtype = true;
        fields.dtype_is_text = reader.kind() == string;
        fields.dtype_is_text ? void(entry.stored = reader.string()) : void(reader.skip());
      } else if (*key == "shape") {
        fields.shape = read_sizes(reader);
      } else if (*key == "data_offsets") {
        fields.offsets = read_sizes(reader);
      } else {
        reader.skip();
      }
    }
    if (!fields.has_dtype) fail_in(entry.name, "no dtype");
    if (!fields.shape) fail_in(entry.name, "no shape");
    if (!fields.offsets) fail_in(entry.name, "no data_offsets");
    check_sizes(entry.name, "shape", *fields.shape);
    entry.shape = shape_of(entry.name, *fields.shape);
    check_sizes(entry.name, "data_offsets", *fields.offsets);
    set_offsets(*fields.offsets, entry);
    if (!fields.dtype_is_text) fail_in(entry.name, "dtype is not a string");
    set_dtype(entry);
  }

  // Called after the shape and offsets were read. The size of an unknown dtype cannot be checked.
  void set_dtype(TensorEntry& entry) const {
    const auto type = io::stored_type(entry.stored);
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
                              entry.stored + " " + to_string(entry.shape));
    }
  }

  static Sizes read_sizes(io::JsonReader& reader) {
    Sizes sizes;
    sizes.is_array = reader.kind() == io::JsonReader::Kind::array;
    if (!sizes.is_array) {
      reader.skip();
      return sizes;
    }
    for (reader.begin_array(); reader.next_item(); ++sizes.count) {
      const auto size = reader.integer();
      sizes.are_sizes = sizes.are_sizes && size && *size >= 0;
      if (size && sizes.count < Sizes::kMost) sizes.numbers[sizes.count] = *size;
    }
    return sizes;
  }

  void check_sizes(const std::string& name, const char* field, const Sizes& sizes) const {
    if (!sizes.is_array) fail_in(name, std::string(field) + " is not an array");
    if (!sizes.are_sizes)
      fail_in(name, std::string(field) + " holds something other than integers from 0 to 2^63 - 1");
  }

  Shape shape_of(const std::string& name, const Sizes& sizes) const {
    if (sizes.count > kMaxRank)
      fail_in(name, "shape: " + std::to_string(sizes.count) + " axes, at most " +
                        std::to_string(kMaxRank));
    try {
      return Shape(std::span(sizes.numbers, sizes.count));
    } catch (const ShapeError& error) {
      fail_in(name, error.what());
    }
  }

  static std::string range_text(std::uint64_t begin, std::uint64_t end) {
    return "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
  }

  void set_offsets(const Sizes& offsets, TensorEntry& entry) const {
    if (offsets.count != 2)
      fail_in(entry.name, "data_offsets has " + std::to_string(offsets.count) + " values, not 2");
    const auto begin = static_cast<std::uint64_t>(offsets.numbers[0]),
               end = static_cast<std::uint64_t>(offsets.numbers[1]);
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
  const platform::MappedFile& mapping_;
  std::span<const std::byte> file_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) {
  auto state = std::make_shared<State>(path);
  HeaderReader(state->path, state->file).read(state->tensors, state->metadata);
  state->by_name.resize(state->tensors.size());
  std::iota(state->by_name.begin(), state->by_name.end(), 0U);
  std::ranges::sort(state->by_name, {}, [&](std::uint32_t position) -> const std::string& {
    return state->tensors[position].name;
  });
  state_ = std::move(state);
}

const std::string& SafetensorsFile::path() const { return state_->path; }

const std::vector<TensorEntry>& SafetensorsFile::tensors() const { return state_->tensors; }

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto name_at = [&](std::uint32_t position) {
    return std::string_view(state_->tensors[position].name);
  };
  const auto found = std::ranges::lower_bound(state_->by_name, name, {}, name_at);
  const bool is_there = found != state_->by_name.end() && name_at(*found) == name;
  return is_there ? &state_->tensors[*found] : nullptr;
}

const SafetensorsMetadata& SafetensorsFile::metadata() const { return state_->metadata; }

std::span<const std::byte> SafetensorsFile::data(const TensorEntry& entry) const {
  return state_->file.bytes().subspan(entry.offset, entry.bytes);
}

void SafetensorsFile::read(const TensorEntry& entry, std::span<std::byte> to) const {
  if (to.size() != entry.bytes)
    throw ArgumentError("SafetensorsFile: read: " + std::to_string(to.size()) + " bytes for " +
                        std::to_string(entry.bytes));
  state_->file.read(entry.offset, to);
}

}  // namespace volta
