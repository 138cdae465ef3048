// Writes a safetensors file tensor by tensor, so that only one tensor need be in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/files.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/safetensors.h"
#include "volta/shape.h"

namespace volta::io {

// The description of a tensor in a header.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// Returns the size of the elements in bytes. Throws ArgumentError if it does not fit 64 bits.
VOLTA_BACKEND_API std::uint64_t bytes_of(const TensorInfo& tensor);

class VOLTA_BACKEND_API SafetensorsWriter {
 public:
  // Checks names and writes the header. Messages begin with `function`. If the metadata contains
  // kChecksumsKey, its value is replaced by the checksums of the written tensors.
  SafetensorsWriter(const std::string& function, const std::string& path,
                    std::span<const TensorInfo> tensors, const SafetensorsMetadata& metadata,
                    platform::AtomicFileOptions options = {});

  // The order in which the tensors' data is written: elements of eight bytes first, then four, two
  // and one, so that all tensors are aligned.
  const std::vector<std::size_t>& order() const { return order_; }
  // Writes the data of the next tensor in that order.
  void write(std::span<const std::byte> data);
  // Called after the last tensor: the file appears under its name. May throw platform::NameTaken.
  void commit();

 private:
  void set_checksums();
  std::string head() const;

  std::string context_;
  std::vector<TensorInfo> tensors_;
  SafetensorsMetadata metadata_;
  std::vector<std::size_t> order_;
  platform::AtomicFile file_;
  bool with_checksums_;
  std::size_t next_ = 0;                                          // index into order_
  std::vector<std::pair<std::string, std::uint32_t>> checksums_;  // in that order
};

}  // namespace volta::io
