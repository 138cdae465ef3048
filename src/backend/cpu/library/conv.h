// Convolutions of the CPU backend, by oneDNN. Bits do not depend on the number of threads.
#pragma once

#include <memory>

#include "plan/plan_steps.h"

namespace volta::cpu {

class Conv {
 public:
  virtual ~Conv() = default;
  // Addresses of the step's buffers, null for a bias that there is none of. Safe from several
  // threads.
  virtual void run(const void* a, const void* b, void* c, const void* bias) = 0;
};

// Whether there is a call for the step; else plans lower it.
VOLTA_BACKEND_API bool takes_conv(const plan::ConvStep& step);
// Weights have their channels second.
VOLTA_BACKEND_API std::unique_ptr<Conv> make_conv(const plan::ConvStep& step);

}  // namespace volta::cpu
