// The caching memory pool in front of every backend: chunks from Backend::allocate, split and
// coalesced, with statistics and a limit. Each lane that computes has chunks of its own: what one
// gives back is no other's next, which would have to wait for it, unless memory is short; and a
// repeated step finds its addresses again whatever the others do. Safe to use from several threads.
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

  // At least `bytes` (> 0), 256-byte aligned, for a lane. Under pressure gives cached chunks back
  // and retries; then throws OutOfMemory with sizes requested, in use, reserved, limit. `used` is
  // told when the memory was used last by those who had it before.
  Address allocate(std::size_t bytes, LaneTimes* used = nullptr, std::size_t lane = 0);
  // The same, of memory that no compute work after `finished` used, if that takes no more than a
  // few spare chunks.
  Address allocate_idle(std::size_t bytes, const ComputeTimes& finished, LaneTimes& used,
                        std::size_t lane = 0);
  // Work up to `used` may still use it.
  void release(Address memory, LaneTimes used = {});

  MemoryStats stats() const;
  void reset_peak();
  void set_limit(std::uint64_t bytes);
  void empty_cache();

 private:
  struct State;
  Address allocate(std::size_t bytes, const ComputeTimes* finished, LaneTimes* used,
                   std::size_t lane);
  std::unique_ptr<State> state_;
};

}  // namespace volta
