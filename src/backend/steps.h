// What a plan asks a backend to do: a list of steps over buffers named by role. Backends see this
// and nothing to its left.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
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
  bool tuned = false;             // timing found this schedule to be faster than the usual one
};

// What becomes of a product's elements. GELU is that by tanh; its gradient multiplies with the
// slope at another matrix.
enum class Activation : std::uint8_t { None, Relu, Gelu, GeluGradient };

// C[b] = op(A[b]) * op(B[b]) in row-major storage, b < batch; C is [m, n], contiguous unless ldc
// says so. Strides in elements. With an epilogue (batch 1 only): plus bias [n], of C's dtype, to
// every row, then the activation. `other`, [m, n] of C's dtype: where keeps_input says so, what the
// activation was applied to is written there; GeluGradient reads it.
struct MatmulStep {
  DType dtype = DType::f32;  // of A and B, and of C
  bool f32_result = false;   // of f16 and bf16 operands: C is f32
  bool transpose_a = false;  // A stored as [k, m]
  bool transpose_b = false;  // B stored as [n, k]
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0;                 // row strides
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // batch strides; 0: shared
  bool tf32 = false;
  bool has_bias = false, keeps_input = false;
  Activation activation = Activation::None;
  BufferRef a, b, c;
  BufferRef bias = {}, other = {};
  std::int64_t offset_a = 0, offset_b = 0;  // elements
  std::string label;
  std::string cut = {};  // one of Backend::product_cuts; empty: the backend's usual one

  DType result_dtype() const { return f32_result ? DType::f32 : dtype; }
  bool reads_other() const { return activation == Activation::GeluGradient; }
  bool uses_other() const { return keeps_input || reads_other(); }
  void bind(std::span<const BufferRef> reads, std::span<const BufferRef> writes) {
    a = reads[0];
    b = reads[1];
    if (has_bias) bias = reads[2];
    if (reads_other()) other = reads.back();
    c = writes[0];
    if (keeps_input) other = writes[1];
  }
};

// A convolution of images [n, height, width, channels] with weights [out, in / groups, kernel
// height, kernel width], or [out, kernel height, kernel width, in / groups]; everything contiguous.
// Forward: a the input, b the weights, c the result, to which a bias [out] may be added and then a
// ReLU applied. InputGrad: a the result's gradient, b the weights, c the input's. WeightGrad: a the
// input, b the result's gradient, c the weights'.
struct ConvStep {
  enum class Kind : std::uint8_t { Forward, InputGrad, WeightGrad };
  using Pair = std::array<std::int64_t, 2>;  // along height and width
  Kind kind = Kind::Forward;
  DType dtype = DType::f32;  // of all three
  bool tf32 = false;
  bool weight_channels_last = false;
  bool has_bias = false;
  Activation activation = Activation::None;
  std::int64_t n = 0, c_in = 0, c_out = 0, groups = 1;
  Pair in{}, out{}, kernel{}, stride{}, padding{}, dilation{};  // padding at the start; the end's
                                                                // follows from the sizes
  std::uint64_t workspace_bytes = 0;
  BufferRef a, b, c;
  BufferRef bias = {};
  BufferRef scratch;  // workspace_bytes of the arena
  std::string label;

  std::int64_t group_in() const { return c_in / groups; }
  std::int64_t group_out() const { return c_out / groups; }
  std::int64_t input_size() const { return n * in[0] * in[1] * c_in; }
  std::int64_t result_size() const { return n * out[0] * out[1] * c_out; }
  std::int64_t weight_size() const { return c_out * group_in() * kernel[0] * kernel[1]; }
  // Multiplications with additions.
  std::int64_t work() const { return result_size() * group_in() * kernel[0] * kernel[1]; }
  void bind(std::span<const BufferRef> reads, std::span<const BufferRef> writes) {
    a = reads[0];
    b = reads[1];
    if (has_bias) bias = reads[2];
    c = writes[0];
  }
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

  void bind(std::span<const BufferRef> reads, std::span<const BufferRef> writes) {
    keys = reads[0];
    indices = writes[0];
    if (has_values) values = writes[1];
  }
};

// softmax(q k^T scale) v for q [batch, heads, queries, size], k and v [batch, kv_heads, keys,
// size], each read through strides, its last axis contiguous; causal: query i sees keys 0 to i.
// Forward: reads q, k, v; writes the output [batch, queries, heads, size] and the logarithms of the
// sums of exponentials [batch, heads, queries], f32. Gradient: reads q, k, v, the output, its
// gradient (both like q) and the logarithms; writes the gradients of q, k and v, [batch, length,
// heads, size]. What heads_first says is written [batch, heads, length, size].
struct AttentionStep {
  struct Operand {
    BufferRef buffer;
    std::array<std::int64_t, 4> strides{};  // elements
    std::int64_t offset = 0;                // elements
  };
  bool gradient = false, causal = false;
  bool deterministic = true;  // the gradient has the same bits every time
  unsigned heads_first = 0;   // a bit for each result
  DType dtype = DType::f16;   // of everything but the logarithms
  double scale = 1;
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, size = 0;
  std::uint64_t workspace_bytes = 0;
  std::vector<Operand> reads;
  std::vector<BufferRef> writes;
  BufferRef scratch;  // workspace_bytes of the arena
  std::string label;

  void bind(std::span<const BufferRef> from, std::span<const BufferRef> to) {
    for (std::size_t i = 0; i < reads.size(); ++i) reads[i].buffer = from[i];
    writes.assign(to.begin(), to.end());
  }
};

using Step = std::variant<KernelStep, MatmulStep, SortStep, ConvStep, AttentionStep>;

// What a step amounts to, by the sizes alone.
struct Work {
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::uint64_t operations = 0;
};

struct PlanSteps {
  std::uint32_t id = 0;    // unique in the process
  std::uint32_t lane = 0;  // of those that compute, the one it runs in
  bool frugal = false;     // does without memory that is for speed only, where there is none
  std::vector<Step> steps;
  std::vector<Work> work;  // of each step
  std::vector<std::uint64_t> leaf_bytes;
  std::vector<std::uint64_t> output_bytes;
  std::uint64_t arena_bytes = 0;
  std::uint32_t arg_words = 0;  // 8-byte words of the argument block
};

}  // namespace volta::plan
