// The IDX format: two zero bytes, a code of the element type, the number of axes, their sizes as
// big-endian 32-bit integers, then the elements, also big-endian.
#include "volta/data/idx.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "data/codecs/codecs.h"
#include "data/host_tensor.h"
#include "platform/files.h"
#include "volta/error.h"

namespace volta::data {
namespace {

struct ElementType {
  int code;
  std::size_t bytes;
  DType dtype;  // dtype of the tensor that is read
};
constexpr ElementType kTypes[] = {{0x08, 1, DType::u8},  {0x09, 1, DType::i32},
                                  {0x0B, 2, DType::i32}, {0x0C, 4, DType::i32},
                                  {0x0D, 4, DType::f32}, {0x0E, 8, DType::f64}};

struct Header {
  ElementType type;
  Shape shape;
  std::size_t bytes;        // size of the header
  std::uint64_t all_bytes;  // size of the whole file
};

constexpr std::size_t kMaxHeaderBytes = 4 + 4 * kMaxRank;

std::uint32_t big_endian(const std::byte* at) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint32_t>(at[i]);
  return value;
}

Header header_of(std::span<const std::byte> file, const std::string& name) {
  const auto fail = [&](const std::string& why) { throw IoError(name + ": " + why); };
  if (file.size() < 4) fail("too short for an IDX file");
  if (file[0] != std::byte{0} || file[1] != std::byte{0}) fail("not an IDX file");
  const auto code = static_cast<int>(file[2]), rank = static_cast<int>(file[3]);
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const auto& t) { return t.code == code; });
  if (type == std::end(kTypes)) fail(fmt::format("IDX element type 0x{:02x} is not known", code));
  if (rank > kMaxRank)
    fail(fmt::format("IDX array of {} axes, at most {} can be read", rank, kMaxRank));
  Header header{*type, {}, 4 + 4 * static_cast<std::size_t>(rank), 0};
  if (file.size() < header.bytes) fail("ends within its header");
  std::int64_t sizes[kMaxRank];
  std::uint64_t data_bytes = header.type.bytes;
  for (int axis = 0; axis < rank; ++axis) {
    sizes[axis] = big_endian(file.data() + 4 + 4 * axis);
    const auto size = static_cast<std::uint64_t>(sizes[axis]);
    if (size != 0 && data_bytes > (std::uint64_t{1} << 60) / size) fail("its sizes are too large");
    data_bytes *= size;
  }
  header.shape = Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)));
  header.all_bytes = header.bytes + data_bytes;
  return header;
}

// Converts the elements to the machine's byte order and to the dtype of the tensor.
void copy_elements(std::span<const std::byte> data, ElementType type, std::byte* to) {
  const std::size_t size = type.bytes;
  for (std::size_t i = 0; i * size < data.size(); ++i) {
    const std::byte* at = data.data() + i * size;
    std::uint64_t bits = 0;
    for (std::size_t k = 0; k < size; ++k) bits = bits << 8 | static_cast<std::uint64_t>(at[k]);
    if (type.dtype == DType::i32) {
      const int unused = 32 - 8 * static_cast<int>(size);
      const auto shifted = static_cast<std::uint32_t>(bits) << unused;
      const std::int32_t value = std::bit_cast<std::int32_t>(shifted) >> unused;  // sign-extends
      std::memcpy(to + 4 * i, &value, 4);
    } else if (type.dtype == DType::f32) {
      const auto word = static_cast<std::uint32_t>(bits);
      std::memcpy(to + 4 * i, &word, 4);
    } else {
      std::memcpy(to + 8 * i, &bits, 8);
    }
  }
}

bool is_gzip(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
}

// Calls use(header, elements) with the content of an uncompressed file.
template <class Use>
auto with_elements(std::span<const std::byte> file, const std::string& name, const Use& use) {
  std::vector<std::byte> content;
  if (is_gzip(file)) {
    content = gunzip(file, name, kMaxHeaderBytes, [&](std::span<const std::byte> head) {
      return header_of(head, name).all_bytes;
    });
    file = content;
  }
  const Header header = header_of(file, name);
  if (file.size() != header.all_bytes) {
    throw IoError(fmt::format("{}: IDX array {} needs {} bytes, the file has {}", name,
                              to_string(header.shape), header.all_bytes, file.size()));
  }
  return use(header, file.subspan(header.bytes));
}

struct Bytes {
  Shape shape;
  std::vector<std::uint8_t> values;
};
Bytes read_bytes(const std::string& path) {
  const std::string file = platform::read_file(path);
  return with_elements(std::as_bytes(std::span(file)), path,
                       [&](const Header& header, auto elements) {
                         if (header.type.dtype != DType::u8)
                           throw IoError(path + ": expected bytes, got other IDX elements");
                         Bytes result{header.shape, std::vector<std::uint8_t>(elements.size())};
                         if (!elements.empty())
                           std::memcpy(result.values.data(), elements.data(), elements.size());
                         return result;
                       });
}

}  // namespace

Tensor parse_idx(std::span<const std::byte> file, const std::string& name) {
  return with_elements(file, name, [&](const Header& header, std::span<const std::byte> elements) {
    const HostTensor result = host_tensor(header.shape, header.type.dtype);
    if (header.type.dtype != DType::u8) {
      copy_elements(elements, header.type, result.memory);
    } else if (!elements.empty()) {
      std::memcpy(result.memory, elements.data(), elements.size());
    }
    return result.tensor;
  });
}

Tensor read_idx(const std::string& path) {
  const std::string file = platform::read_file(path);
  return parse_idx(std::as_bytes(std::span(file)), path);
}

ImageDataset idx_images(const std::string& images_path, const std::string& labels_path) {
  Bytes images = read_bytes(images_path), labels = read_bytes(labels_path);
  const int rank = images.shape.rank();
  if (rank != 3 && rank != 4) {
    throw IoError(fmt::format("{}: expected images [n, height, width], got {}", images_path,
                              to_string(images.shape)));
  }
  if (labels.shape != Shape{images.shape[0]}) {
    throw IoError(fmt::format("{}: labels {} do not go with the images {} of {}", labels_path,
                              to_string(labels.shape), to_string(images.shape), images_path));
  }
  Shape shape = images.shape.removed(0);
  if (rank == 3) shape = shape.inserted(0, 1);
  return {shape, std::move(images.values), std::move(labels.values)};
}

ImageDataset mnist(const std::string& folder, Split split) {
  const auto found = [&](const std::string& name) {
    const auto plain = std::filesystem::path(folder) / name;
    const auto packed = std::filesystem::path(folder) / (name + ".gz");
    std::error_code ignored;
    for (const auto& path : {plain, packed})
      if (std::filesystem::exists(path, ignored)) return path.string();
    throw IoError(fmt::format("{}: has neither {} nor {}.gz", folder, name, name));
  };
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::string images = found(prefix + "-images-idx3-ubyte");
  return idx_images(images, found(prefix + "-labels-idx1-ubyte"));
}

}  // namespace volta::data
