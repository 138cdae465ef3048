// What a plan asks a backend to do: a list of steps over buffers named by role. Backends see this
// and nothing to its left.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernel/program.h"
#include "volta/dtype.h"

namespace volta::plan {

// A buffer of a plan. Leaves and outputs are bound at each run; Temp is memory of the plan's arena
// at `offset`. Leaf and Output addresses already include their own offset; `offset` here is 0 for
// them.
struct BufferRef {
  enum class Kind : std::uint8_t { Leaf, Output, Temp };
  Kind kind = Kind::Temp;
  std::uint32_t index = 0;   // which leaf or output
  std::uint64_t offset = 0;  // bytes into the arena (Temp), a multiple of 256
};

// One use of a kernel program: its sizes, buffers (one per slot) and where its scalar arguments
// start in the plan's argument block (Program::args.size() consecutive 8-byte words from there;
// each word holds the argument as double for f16/bf16/f32/f64 dtypes, as int64 otherwise).
struct Binding {
  std::vector<std::int64_t> ints;
  std::vector<BufferRef> buffers;
  std::uint32_t first_arg = 0;
};

struct KernelStep {
  std::shared_ptr<const kernel::Program> program;
  std::vector<Binding> segments;  // one, unless program->schedule.horizontal
  std::string label;              // the operations it came from, for explain and profiles
};

// C[b] = op(A[b]) * op(B[b]) in row-major storage, b < batch; C is [m, n], contiguous unless ldc
// says so. Strides in elements.
struct MatmulStep {
  DType dtype = DType::f32;  // of A and B, and of C
  bool f32_result = false;   // of f16 and bf16 operands: C is f32
  bool transpose_a = false;  // A stored as [k, m]
  bool transpose_b = false;  // B stored as [n, k]
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0;                 // row strides
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // batch strides; 0: shared
  bool tf32 = false;
  BufferRef a, b, c;
  std::int64_t offset_a = 0, offset_b = 0;  // elements
  std::string label;

  DType result_dtype() const { return f32_result ? DType::f32 : dtype; }
};

// Stable sort of the rows of keys [rows, length], NaN greatest: indices [rows, count] says where
// the first `count` keys in order stand, values [rows, count], if wanted, holds them.
struct SortStep {
  DType dtype = DType::f32;        // of keys and values
  DType index_dtype = DType::i64;  // i32 or i64
  bool descending = false;
  bool has_values = false;
  std::int64_t rows = 0, length = 0, count = 0;
  BufferRef keys, indices, values;
  BufferRef scratch;  // scratch_bytes of the arena, for backends that ask for them
  std::string label;
};

using Step = std::variant<KernelStep, MatmulStep, SortStep>;

struct PlanSteps {
  std::uint32_t id = 0;  // unique in the process
  std::vector<Step> steps;
  std::vector<std::uint64_t> leaf_bytes;
  std::vector<std::uint64_t> output_bytes;
  std::uint64_t arena_bytes = 0;
  std::uint32_t arg_words = 0;  // 8-byte words of the argument block
};

}  // namespace volta::plan
