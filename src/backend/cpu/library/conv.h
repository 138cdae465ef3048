// Convolutions of the CPU backend, by oneDNN. Results do not depend on the number of threads, bit
// for bit.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/steps.h"

namespace volta::cpu {

class Conv {
 public:
  virtual ~Conv() = default;
  // Takes the addresses of the step's buffers; `bias` is null if the step has none. Thread-safe.
  virtual void run(const void* a, const void* b, void* c, const void* bias) = 0;
  // An estimate of the host memory that this object holds, without oneDNN's code.
  virtual std::uint64_t host_bytes() const = 0;
};

// Whether there is a library call for the step; if not, plans lower it.
VOLTA_BACKEND_API bool takes_conv(const plan::ConvStep& step);
// The weights must have their channels second.
VOLTA_BACKEND_API std::unique_ptr<Conv> make_conv(const plan::ConvStep& step);

}  // namespace volta::cpu
