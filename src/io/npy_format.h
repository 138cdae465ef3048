// The npy format on the level of bytes: the header, and the tensor that follows it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "volta/device.h"
#include "volta/export.h"
#include "volta/tensor.h"

namespace volta::io {

// The array in the bytes of a whole npy file. A tensor of the CPU may lie in them, and then keeps
// `owner`. `source` begins messages.
VOLTA_BACKEND_API Tensor read_npy(std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner, const std::string& source,
                                  Device device);

// What comes before the elements; their place is a multiple of 64 bytes. `function` begins
// messages.
std::string npy_header(const char* function, const Tensor& tensor);

}  // namespace volta::io
