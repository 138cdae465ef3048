// Matrix products of the CPU backend: oneDNN for f32 and bf16 where the build has it, else the
// generic packed product. Everything is planned in advance; run() only takes addresses. Bits do not
// depend on the number of threads.
#pragma once

#include <memory>

#include "plan/plan_steps.h"

namespace volta::cpu {

class Matmul {
 public:
  virtual ~Matmul() = default;
  // Addresses of the buffers; the step's element offsets are added here. Safe from several threads.
  // `bias` where the step has one.
  virtual void run(const void* a, const void* b, void* c, const void* bias) = 0;
};

// f32 or f64.
VOLTA_BACKEND_API std::unique_ptr<Matmul> make_generic_matmul(const plan::MatmulStep& step);
// Whether oneDNN multiplies such matrices: f32, and bf16 where the processor has instructions for
// it; nothing in a build without oneDNN or with VOLTA_ONEDNN=off.
VOLTA_BACKEND_API bool onednn_multiplies(DType dtype);
// Null where it does not, or where there is nothing to add up.
VOLTA_BACKEND_API std::unique_ptr<Matmul> make_onednn_matmul(const plan::MatmulStep& step);
// Of those the tall ones, for which the right operand is packed once; null for others. Only in
// builds with oneDNN.
std::unique_ptr<Matmul> make_packed_matmul(const plan::MatmulStep& step);

// Whether make_onednn_matmul does the step's epilogue too: a bias.
VOLTA_BACKEND_API bool fuses_epilogue(const plan::MatmulStep& step);

// The step with operands that every implementation takes: a batch of equal matrices one below the
// other, times one shared matrix, becomes a single taller product.
plan::MatmulStep fold_batch(plan::MatmulStep step);

}  // namespace volta::cpu
