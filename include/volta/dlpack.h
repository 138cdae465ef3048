// Tensors from and for other libraries by DLPack 1.x, without copies where possible.
// The structures are DLPack's: include its header, or volta/dlpack_abi.h, to look into them.
#pragma once

#include "volta/tensor.h"

struct DLManagedTensor;           // before 1.0
struct DLManagedTensorVersioned;  // since 1.0

namespace volta {

struct ToDlpackOptions {
  bool copy = false;  // memory of its own, that may be written to
};
// Computes the tensor and hands out its memory, row by row; whoever takes it calls its deleter when
// done, from any thread. Volta goes on to use the memory: unless copied it is marked read-only. On
// CUDA the values are there when this returns: consumers need not wait for a stream, but must be
// done with theirs before they call the deleter. On OpenCL `data` is the cl_mem, the values begin
// at byte_offset.
VOLTA_API DLManagedTensorVersioned* to_dlpack(const Tensor& tensor, ToDlpackOptions options = {});
// In the layout before 1.0, which cannot say that memory is read-only: always a copy.
VOLTA_API DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor);

// A tensor on memory of another library: on the CPU (also page-locked, kDLCUDAHost) or a CUDA
// device. The rules are from_blob's: no copy but for misaligned memory and for strides that are not
// those of a row-by-row array with exchanged axes (on CUDA: an error, and 16 bytes are the
// alignment); read at evaluation; never written to. The values must be there: wait for the stream
// that computes them. Takes the tensor over, also when it throws: its deleter is called once, on
// CUDA after all work that reads the memory.
VOLTA_API Tensor from_dlpack(DLManagedTensorVersioned* managed, Place place = Place::here());
VOLTA_API Tensor from_dlpack(DLManagedTensor* managed, Place place = Place::here());

}  // namespace volta
