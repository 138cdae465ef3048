// The caching memory pool in front of every backend: chunks from Backend::allocate, split and
// coalesced, with statistics and a limit. Each compute stream has its own chunks: a stream that
// reused memory freed by another would have to wait for it (this happens only if memory is short),
// and a repeated step gets the same addresses whatever other streams do. The pool is thread-safe.
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

  // At least `bytes` (> 0), 256-byte aligned, for a stream. If memory is short, gives cached chunks
  // back and retries, then throws OutOfMemory with the sizes requested, in use, reserved, and the
  // limit. `used` receives the last uses of the memory by its previous owners.
  Address allocate(std::size_t bytes, StreamTimes* used = nullptr, std::size_t stream = 0);
  // Like allocate, but prefers memory that no compute work after `finished` uses, as long as this
  // takes no more than a few spare chunks.
  Address allocate_idle(std::size_t bytes, const ComputeTimes& finished, StreamTimes& used,
                        std::size_t stream = 0);
  // Gives memory back that work up to `used` may still use.
  void release(Address memory, StreamTimes used = {});

  MemoryStats stats() const;
  void reset_peak();
  void set_limit(std::uint64_t bytes);
  void empty_cache();

 private:
  struct State;
  Address allocate(std::size_t bytes, const ComputeTimes* finished, StreamTimes* used,
                   std::size_t stream);
  std::unique_ptr<State> state_;
};

}  // namespace volta
