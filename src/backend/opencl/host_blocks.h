// Copies of host bytes that commands still read.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "backend/opencl/handles.h"

namespace volta::opencl {

class HostBlocks {
 public:
  // Copies up to this size go through a block; larger ones wait for the device.
  static constexpr std::size_t kBlockLimit = std::size_t{4} << 20;

  // Bytes of the caller's, kept until the event that is set has passed. Waits for earlier ones
  // where too many are kept.
  struct Block {
    std::vector<std::byte> bytes;
    EventHandle event;
  };
  Block take(const void* source, std::size_t bytes);
  void keep(Block block);

 private:
  std::deque<Block> in_flight_;  // oldest first
  std::size_t in_flight_bytes_ = 0;
};

}  // namespace volta::opencl
