// Matrix products of the CPU backend: oneDNN for f32 and bf16 if the build has it, otherwise the
// generic packed product. Everything is planned in advance; run() only takes addresses. Results do
// not depend on the number of threads, bit for bit.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/steps.h"

namespace volta::cpu {

class Matmul {
 public:
  virtual ~Matmul() = default;
  // Takes the addresses of the buffers and adds the step's element offsets; `bias` is read if the
  // step has one. Thread-safe.
  virtual void run(const void* a, const void* b, void* c, const void* bias) = 0;
  // An estimate of the host memory that this object holds, without oneDNN's code.
  virtual std::uint64_t host_bytes() const { return sizeof(*this); }
};

// The generic product, for f32 and f64.
VOLTA_BACKEND_API std::unique_ptr<Matmul> make_generic_matmul(const plan::MatmulStep& step);
// Whether oneDNN multiplies matrices of this dtype: f32, and bf16 if the processor has instructions
// for it. False in builds without oneDNN and under VOLTA_ONEDNN=off.
VOLTA_BACKEND_API bool onednn_multiplies(DType dtype);
// A product through oneDNN; null if oneDNN does not support it, or if k is 0.
VOLTA_BACKEND_API std::unique_ptr<Matmul> make_onednn_matmul(const plan::MatmulStep& step);
// A tall product through oneDNN, for which the right operand is packed once; null for other shapes.
// Exists only in builds with oneDNN.
std::unique_ptr<Matmul> make_packed_matmul(const plan::MatmulStep& step);

// Whether make_onednn_matmul also applies the step's epilogue, which can only be a bias.
VOLTA_BACKEND_API bool fuses_epilogue(const plan::MatmulStep& step);

// Frees the primitives that oneDNN keeps although no plan uses them.
void drop_unused_primitives();

// Simplifies a batch: equal matrices stacked below each other, times one shared matrix, become a
// single taller product.
plan::MatmulStep fold_batch(plan::MatmulStep step);

}  // namespace volta::cpu
