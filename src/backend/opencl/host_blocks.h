// Copies of host bytes that enqueued commands still read.
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

  // A copy of the caller's bytes, kept until its event has passed. take() waits for earlier blocks
  // if too many bytes are in flight.
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
