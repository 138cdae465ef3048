// Reading and writing safetensors files, on the level of bytes:
// https://github.com/huggingface/safetensors. Every length, offset, dtype and shape is checked
// before a byte of data is handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/shape.h"

namespace volta {

// What load() makes of a tensor's bytes.
enum class TensorContent : std::uint8_t {
  same,     // they are the elements
  widened,  // elements of a dtype that Volta does not have become those of one that holds them all:
            // I8, I16, U16 -> i32; U32, U64 -> i64; F8_E4M3, F8_E5M2 -> f32
  unreadable  // an error: of all other dtypes Volta knows the bytes only
};

// One tensor of a file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;  // of the tensor that load() makes; u8 for an unreadable one
  TensorContent content = TensorContent::same;
  Shape shape;
  std::uint64_t offset = 0;  // of the first byte, from the start of the file
  std::uint64_t bytes = 0;
  std::string stored = {};  // the dtype's name in the file: "F32", "I8"
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// An open file, memory-mapped: what data() hands out changes with the file, and is lost with it.
// Copies share the mapping, which ends with the last of them.
class VOLTA_API SafetensorsFile {
 public:
  // Throws IoError, naming the file and the problem.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  const std::vector<TensorEntry>& tensors() const;       // in the order of their data
  const TensorEntry* find(std::string_view name) const;  // null when there is none
  const SafetensorsMetadata& metadata() const;

  // The bytes of a tensor as stored: little-endian, row-major, not necessarily aligned to the
  // element size.
  std::span<const std::byte> data(const TensorEntry& entry) const;
  // Copies them by reading the file, which takes no memory besides and does not kill the process
  // where somebody has truncated the file: that is an IoError. `to` has entry.bytes bytes.
  void read(const TensorEntry& entry, std::span<std::byte> to) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// One tensor to write: shape.numel() elements, contiguous, at `data` (which may be null when there
// are none).
struct TensorData {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  const void* data = nullptr;
};

// Writes the tensors in the order given, but those with larger elements first: so each begins at a
// multiple of its element size, and readers can use it where it is. The file appears complete or
// not at all. Throws IoError, or ArgumentError for names that occur twice, are reserved or are not
// UTF-8.
VOLTA_API void write_safetensors(const std::string& path, std::span<const TensorData> tensors,
                                 const SafetensorsMetadata& metadata = {});

}  // namespace volta
