// Reading and writing safetensors files at the level of bytes:
// https://github.com/huggingface/safetensors. Every length, offset, dtype and shape is checked
// before any data is returned.
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

// How load() converts a tensor's bytes.
enum class TensorContent : std::uint8_t {
  same,       // the bytes are the elements
  widened,    // elements of a dtype that Volta lacks are converted to one that holds all values:
              // I8, I16, U16 -> i32; U32, U64 -> i64; F8_E4M3, F8_E5M2 -> f32
  unreadable  // an error: Volta can only copy the bytes of other dtypes
};

// One tensor of a file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;  // dtype of the tensor that load() makes; u8 if unreadable
  TensorContent content = TensorContent::same;
  Shape shape;
  std::uint64_t offset = 0;  // of the first byte, from the start of the file
  std::uint64_t bytes = 0;
  std::string stored = {};  // the dtype's name in the file: "F32", "I8"
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// An open, memory-mapped file: the bytes that data() returns change with the file. Copies share the
// mapping, which ends with the last copy.
class VOLTA_API SafetensorsFile {
 public:
  // Throws IoError naming the file and the problem.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  const std::vector<TensorEntry>& tensors() const;       // in the order of their data
  const TensorEntry* find(std::string_view name) const;  // null when there is none
  const SafetensorsMetadata& metadata() const;

  // The bytes of a tensor as stored: little-endian, row-major, not necessarily aligned to the
  // element size.
  std::span<const std::byte> data(const TensorEntry& entry) const;
  // Copies the bytes by reading the file, without taking memory for the mapping. A file that was
  // truncated is an IoError and does not kill the process. `to` has entry.bytes bytes.
  void read(const TensorEntry& entry, std::span<std::byte> to) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// A tensor to write: shape.numel() contiguous elements at `data`, which may be null if there are
// none.
struct TensorData {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  const void* data = nullptr;
};

// Writes the tensors in the given order, except that larger elements come first: each tensor is
// then aligned to its element size, and readers can use it in place. The file appears complete or
// not at all. Throws IoError, or ArgumentError for names that are duplicate, reserved or not UTF-8.
VOLTA_API void write_safetensors(const std::string& path, std::span<const TensorData> tensors,
                                 const SafetensorsMetadata& metadata = {});

}  // namespace volta
