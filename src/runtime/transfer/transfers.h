// Counts transfers between host and devices, with their reasons.
#pragma once

#include <cstdint>

#include "core/profiling.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/transfers.h"

namespace volta {

// Counts a copy that ends with the scope, unless the scope ends by an exception or the device is
// not a GPU.
class VOLTA_BACKEND_API Transfer {
 public:
  enum class Direction : std::uint8_t { ToDevice, ToHost };
  Transfer(Direction direction, Device device, std::uint64_t bytes);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

 private:
  const Direction direction_;
  const Device device_;
  const std::uint64_t bytes_;
  const int exceptions_;
  const profiling::Time begin_;
};

}  // namespace volta
