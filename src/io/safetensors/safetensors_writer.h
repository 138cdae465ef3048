// Writes one safetensors file tensor by tensor, so that no more than one need be in host memory.
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

// What a header says of a tensor.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
};

// Bytes of the elements; throws ArgumentError where 64 bits cannot count them.
VOLTA_BACKEND_API std::uint64_t bytes_of(const TensorInfo& tensor);

class VOLTA_BACKEND_API SafetensorsWriter {
 public:
  // Checks names and writes the header. `function` begins messages. Metadata of kChecksumsKey, of
  // whatever text, asks for checksums: its value is that of the tensors that are written.
  SafetensorsWriter(const std::string& function, const std::string& path,
                    std::span<const TensorInfo> tensors, const SafetensorsMetadata& metadata);

  // The positions of the tensors in the order their data comes: elements of eight bytes first, then
  // those of four, two, one, so that each is aligned to its elements.
  const std::vector<std::size_t>& order() const { return order_; }
  // The data of the next tensor of that order.
  void write(std::span<const std::byte> data);
  // After the last: the file appears.
  void commit();

 private:
  std::string head() const;

  std::string context_;
  std::vector<TensorInfo> tensors_;
  SafetensorsMetadata metadata_;
  std::vector<std::size_t> order_;
  platform::AtomicFile file_;
  bool with_checksums_;
  std::size_t next_ = 0;                                          // of order_
  std::vector<std::pair<std::string, std::uint32_t>> checksums_;  // in that order
};

}  // namespace volta::io
