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
  // then throws OutOfMemory with sizes requested, in use, reserved, limit. `used` is told when the
  // memory was used last by those who had it before.
  Address allocate(std::size_t bytes, LaneTimes* used = nullptr);
  // The same, of memory that no compute work after `finished` used, if that takes no more than a
  // few spare chunks.
  Address allocate_idle(std::size_t bytes, const ComputeTimes& finished, LaneTimes& used);
  // Work up to `used` may still use it.
  void release(Address memory, LaneTimes used = {});

  MemoryStats stats() const;
  void reset_peak();
  void set_limit(std::uint64_t bytes);
  void empty_cache();

 private:
  struct State;
  Address allocate(std::size_t bytes, const ComputeTimes* finished, LaneTimes* used);
  std::unique_ptr<State> state_;
};

}  // namespace volta
