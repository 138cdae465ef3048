// Counting what moves between host and devices, with the reason.
#pragma once

#include <cstdint>

#include "core/profiling.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/transfers.h"

namespace volta {

// A copy that ends with the scope; nothing is counted where it ends by an exception, or where
// nothing moves between host and device.
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

// Where the transfer under way in this thread comes from; nowhere without one.
Place transfer_place();

}  // namespace volta
