// Exchange of tensors with other libraries by DLPack 1.x, without copies where possible. The
// structures are DLPack's: include its header or volta/dlpack_abi.h to access their fields.
#pragma once

#include "volta/tensor.h"

struct DLManagedTensor;           // before DLPack 1.0
struct DLManagedTensorVersioned;  // since DLPack 1.0

namespace volta {

struct ToDlpackOptions {
  bool copy = false;  // makes a copy that may be written to
};
// Computes the tensor and exports its memory in row-major order. The consumer calls the deleter
// when it is done, from any thread. Volta continues to use the memory, so it is marked read-only
// unless copied. On CUDA the values are complete when this returns: consumers need not wait for a
// stream, but their own work must be finished before they call the deleter. On OpenCL `data` is the
// cl_mem, and the values begin at byte_offset.
VOLTA_API DLManagedTensorVersioned* to_dlpack(const Tensor& tensor, ToDlpackOptions options = {});
// Exports the layout before 1.0, which cannot mark memory read-only, so it always copies.
VOLTA_API DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

// Makes a tensor on the memory of another library, on the CPU (also page-locked, kDLCUDAHost) or on
// a CUDA device. The rules are those of from_blob: memory is copied only if it is misaligned or its
// strides are not those of a row-major array with permuted axes (on CUDA this is an error, and the
// alignment is 16 bytes); it is read at evaluation and never written to. The values must be
// complete: wait for the stream that computes them. Takes ownership, also when it throws: the
// deleter is called once, on CUDA after all work that reads the memory.
VOLTA_API Tensor from_dlpack(DLManagedTensorVersioned* managed,
                             SourceLocation place = SourceLocation::here());
VOLTA_API Tensor from_dlpack(DLManagedTensor* managed,
                             SourceLocation place = SourceLocation::here());

}  // namespace volta
