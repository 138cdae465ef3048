// The caching memory pool in front of every backend: chunks from Backend::allocate, split and
// coalesced, with statistics and a limit. Safe to use from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "volta/counters.h"
#include "volta/export.h"

namespace volta {

class VOLTA_BACKEND_API Pool {
 public:
  Pool(Backend& backend, int device, std::string device_name);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // At least `bytes` (> 0), 256-byte aligned. Under pressure gives cached chunks back and retries;
  // then throws OutOfMemory with sizes requested, in use, reserved, limit.
  Address allocate(std::size_t bytes);
  void release(Address memory);

  MemoryStats stats() const;
  void reset_peak();
  void set_limit(std::uint64_t bytes);
  void empty_cache();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace volta
