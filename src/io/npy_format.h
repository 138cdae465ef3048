// The bytes of the npy format: the header, and the array that follows it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "volta/device.h"
#include "volta/export.h"
#include "volta/tensor.h"

namespace volta::io {

// Reads the array from the bytes of a whole npy file. A CPU tensor may use these bytes directly and
// then keeps `owner` alive. Messages begin with `source`.
VOLTA_BACKEND_API Tensor read_npy(std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner, const std::string& source,
                                  Device device);

// Returns the bytes before the elements, padded so that the elements start at a multiple of 64
// bytes. Messages begin with `function`.
std::string npy_header(const char* function, const Tensor& tensor);

}  // namespace volta::io
