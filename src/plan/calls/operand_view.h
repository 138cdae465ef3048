// Operands of calls as strided arrays in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/calls/call.h"

namespace volta::plan {

// An operand of a matrix product as libraries expect it: a strided matrix, or batch of matrices, in
// a buffer.
struct MatrixView {
  int base = -1;  // the value that owns the buffer; -1 if there is no such view
  bool transposed = false;
  Extent leading = 0;  // row stride
  Extent batch_stride = 0;
  Extent offset = 0;  // in elements
};

// An array in a buffer with arbitrary element strides.
struct StridedView {
  int base = -1;
  std::vector<Extent> strides;
  Extent offset = 0;
};

// The operand of a product as a matrix in memory; base is -1 if it is not one.
MatrixView matrix_view(const StoredValues& plan, int id);

// The value as a strided array in memory with a contiguous last axis; base is -1 if it is not one.
StridedView strided_view(const StoredValues& plan, int id);

// Whether the value can be read in this layout without being stored for it. Always false for Dense,
// because dense operands are stored.
bool lies_as(const StoredValues& plan, int id, OperandLayout layout);

}  // namespace volta::plan
