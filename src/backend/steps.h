// The steps that a plan asks a backend to run, over buffers named by role. A backend sees only
// these, never nodes or values.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernel/program.h"
#include "volta/dtype.h"

namespace volta::plan {

// A buffer of a plan, or what an iteration of a loop uses of it. Leaves and outputs are bound at
// each run, and their addresses include any offset, so `offset` is 0 for them outside loops. Temp
// is arena memory at `offset`, there a multiple of 256.
struct BufferRef {
  enum class Kind : std::uint8_t { Leaf, Output, Temp };
  // How the iterations of a loop walk the buffer: by a stride, or through two places in turn, so
  // that an iteration writes one (Written) and reads what the one before wrote (Read).
  enum class Walk : std::uint8_t { Stride, Written, Read };
  Kind kind = Kind::Temp;
  std::uint32_t index = 0;   // which leaf or output
  std::uint64_t offset = 0;  // bytes: into the arena (Temp), or to the first iteration's part
  std::int64_t stride = 0;   // bytes from one iteration, or place, to the next
  Walk walk = Walk::Stride;

  // The bytes from the buffer's address to the part that an iteration uses; 0 outside loops.
  std::uint64_t offset_in(std::int64_t iteration) const {
    if (walk != Walk::Stride) iteration = (iteration + (walk == Walk::Read ? 1 : 0)) % 2;
    return offset + static_cast<std::uint64_t>(iteration * stride);
  }
};

// One use of a kernel program: its sizes, its buffers (one per slot) and the first word of its
// scalar arguments in the plan's argument block. There are Program::args.size() consecutive 8-byte
// words; each holds its argument as a double for f16, bf16, f32 and f64, as an int64 otherwise.
struct Binding {
  std::vector<std::int64_t> ints;
  std::vector<BufferRef> buffers;
  std::uint32_t first_arg = 0;
};

struct WrittenBuffer {
  BufferRef buffer;
  DType dtype = DType::f32;
};

struct KernelStep {
  std::shared_ptr<const kernel::Program> program;
  std::vector<Binding> segments;  // one, unless program->schedule.horizontal
  std::string label;              // the operations that the step computes, for explain and profiles
  bool tuned = false;             // timing found this schedule faster than the default

  std::vector<WrittenBuffer> written() const {
    std::vector<WrittenBuffer> buffers;
    for (const Binding& segment : segments) {
      for (std::size_t slot = 0; slot < program->slots.size(); ++slot) {
        const kernel::Slot& one = program->slots[slot];
        if (one.written) buffers.push_back({segment.buffers[slot], one.dtype});
      }
    }
    return buffers;
  }
};

// The steps below are library calls. Each has bind(reads, writes), which sets its buffers in the
// order of the planner's operands and results, and written(); a member `scratch` where the call
// works in memory of the arena. src/plan/calls has a file for each of them.

// The activation applied to a product. Gelu is the tanh approximation; GeluGradient multiplies with
// its derivative at another matrix.
enum class Activation : std::uint8_t { None, Relu, Gelu, GeluGradient };

// C[b] = op(A[b]) * op(B[b]) in row-major storage, b < batch. C is [m, n], contiguous unless ldc is
// set. Strides count elements. The epilogue (batch 1 only) adds bias [n], of C's dtype, to every
// row and then applies the activation. `other` is [m, n] of C's dtype: if keeps_input is set, the
// input of the activation is written there; GeluGradient reads it.
struct MatmulStep {
  DType dtype = DType::f32;  // of A, B and C
  bool f32_result = false;   // C is f32 although A and B are f16 or bf16
  bool transpose_a = false;  // A stored as [k, m]
  bool transpose_b = false;  // B stored as [n, k]
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0;                 // row strides
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // batch strides; 0: one matrix for all
  bool tf32 = false;
  bool has_bias = false, keeps_input = false;
  // Whether a library may time its algorithms for the step. It does not where sizes vary, because
  // every new size would have to wait.
  bool may_time = true;
  Activation activation = Activation::None;
  BufferRef a, b, c;
  BufferRef bias = {}, other = {};
  std::int64_t offset_a = 0, offset_b = 0;  // elements
  std::string label;
  std::string cut = {};  // one of Backend::call_forms; empty: the backend's default

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
  std::vector<WrittenBuffer> written() const {
    if (!keeps_input) return {{c, result_dtype()}};
    return {{c, result_dtype()}, {other, result_dtype()}};
  }
};

// A convolution of images [n, height, width, channels] with weights [out, in / groups, kernel
// height, kernel width], or [out, kernel height, kernel width, in / groups]; everything is
// contiguous. Forward: a is the input, b the weights, c the result, with an optional bias [out] and
// ReLU. InputGrad: a is the result's gradient, b the weights, c the input's gradient. WeightGrad: a
// is the input, b the result's gradient, c the weights' gradient.
struct ConvStep {
  enum class Kind : std::uint8_t { Forward, InputGrad, WeightGrad };
  using Pair = std::array<std::int64_t, 2>;  // (height, width)
  Kind kind = Kind::Forward;
  DType dtype = DType::f32;  // of a, b and c
  bool tf32 = false;
  bool weight_channels_last = false;
  bool has_bias = false;
  bool may_time = true;  // see MatmulStep
  Activation activation = Activation::None;
  std::int64_t n = 0, c_in = 0, c_out = 0, groups = 1;
  // `padding` is that before the first row and column; that after the last follows from the sizes.
  Pair in{}, out{}, kernel{}, stride{}, padding{}, dilation{};
  std::uint64_t workspace_bytes = 0;
  BufferRef a, b, c;
  BufferRef bias = {};
  BufferRef scratch;  // workspace_bytes in the arena
  std::string label;

  std::int64_t group_in() const { return c_in / groups; }
  std::int64_t group_out() const { return c_out / groups; }
  std::int64_t input_size() const { return n * in[0] * in[1] * c_in; }
  std::int64_t result_size() const { return n * out[0] * out[1] * c_out; }
  std::int64_t weight_size() const { return c_out * group_in() * kernel[0] * kernel[1]; }
  // Elements of a, b and c.
  std::array<std::int64_t, 3> operand_sizes() const {
    switch (kind) {
      case Kind::Forward:
        return {input_size(), weight_size(), result_size()};
      case Kind::InputGrad:
        return {result_size(), weight_size(), input_size()};
      case Kind::WeightGrad:
        break;
    }
    return {input_size(), result_size(), weight_size()};
  }
  // The number of multiply-adds.
  std::int64_t work() const { return result_size() * group_in() * kernel[0] * kernel[1]; }
  void bind(std::span<const BufferRef> reads, std::span<const BufferRef> writes) {
    a = reads[0];
    b = reads[1];
    if (has_bias) bias = reads[2];
    c = writes[0];
  }
  std::vector<WrittenBuffer> written() const { return {{c, dtype}}; }

  // The numbers that identify the computation, independent of where its operands lie. They are the
  // key of a library's cache and the attributes of the planner's value.
  using Numbers = std::array<std::int64_t, 21>;
  Numbers numbers() const {
    return {static_cast<std::int64_t>(kind),
            static_cast<std::int64_t>(dtype),
            tf32,
            n,
            c_in,
            c_out,
            groups,
            in[0],
            in[1],
            out[0],
            out[1],
            kernel[0],
            kernel[1],
            stride[0],
            stride[1],
            padding[0],
            padding[1],
            dilation[0],
            dilation[1],
            has_bias,
            static_cast<std::int64_t>(activation)};
  }
  // Those of the numbers that may be open: n, in and out.
  static constexpr std::array<std::size_t, 5> kOpenNumbers{3, 7, 8, 9, 10};
  static ConvStep of(std::span<const std::int64_t, std::tuple_size_v<Numbers>> numbers) {
    ConvStep s;
    s.kind = static_cast<Kind>(numbers[0]);
    s.dtype = static_cast<DType>(numbers[1]);
    s.tf32 = numbers[2] != 0;
    s.n = numbers[3];
    s.c_in = numbers[4];
    s.c_out = numbers[5];
    s.groups = numbers[6];
    Pair* const pairs[] = {&s.in, &s.out, &s.kernel, &s.stride, &s.padding, &s.dilation};
    std::size_t next = 7;
    for (Pair* pair : pairs) {
      for (std::int64_t& number : *pair) number = numbers[next++];
    }
    s.has_bias = numbers[next++] != 0;
    s.activation = static_cast<Activation>(numbers[next]);
    return s;
  }
};

// A stable sort of the rows of keys [rows, length]; NaN is the greatest key. indices [rows, count]
// receives the positions of the first `count` keys in order, values [rows, count], if wanted, the
// keys themselves.
struct SortStep {
  DType dtype = DType::f32;        // of keys and values
  DType index_dtype = DType::i64;  // i32 or i64
  bool descending = false;
  bool has_values = false;
  std::int64_t rows = 0, length = 0, count = 0;
  BufferRef keys, indices, values;
  BufferRef scratch;  // scratch_bytes in the arena, for backends that ask for scratch memory
  std::string label;

  void bind(std::span<const BufferRef> reads, std::span<const BufferRef> writes) {
    keys = reads[0];
    indices = writes[0];
    if (has_values) values = writes[1];
  }
  std::vector<WrittenBuffer> written() const {
    if (!has_values) return {{indices, index_dtype}};
    return {{indices, index_dtype}, {values, dtype}};
  }
};

// softmax(q k^T scale) v for q [batch, heads, queries, size], k and v [batch, kv_heads, keys,
// size]. Each is read through strides; the last axis is contiguous. If causal, query i sees keys 0
// to i. The forward step reads q, k, v and writes the output [batch, queries, heads, size] and the
// logarithms of the sums of exponentials [batch, heads, queries], f32. The gradient step reads q,
// k, v, the output, its gradient (both like q) and the logarithms, and writes the gradients of q, k
// and v [batch, length, heads, size]. Results marked in heads_first are written as [batch, heads,
// length, size]. A mask, which is the last operand, has strides in [batch, heads, queries, keys],
// those of broadcast axes 0. A boolean one hides the keys where it is false, another one is added
// to the scores. Where a query sees no key, the output is 0 and the logarithm +inf.
struct AttentionStep {
  struct Operand {
    BufferRef buffer;
    std::array<std::int64_t, 4> strides{};  // elements
    std::int64_t offset = 0;                // elements
  };
  // What runs the step: a library, made ready for its exact sizes, or kernels of the backend, which
  // take all sizes as arguments.
  enum class By : std::uint8_t { Library, Kernels };
  By by = By::Library;
  bool gradient = false, causal = false;
  bool masked = false;
  DType mask = DType::boolean;  // of the mask, if there is one
  bool deterministic = true;    // the gradient has the same bits in every run
  unsigned heads_first = 0;     // one bit per result
  DType dtype = DType::f16;     // of everything except the logarithms
  double scale = 1;
  std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, size = 0;
  std::uint64_t workspace_bytes = 0;
  std::vector<Operand> reads;
  std::vector<BufferRef> writes;
  BufferRef scratch;  // workspace_bytes in the arena
  std::string label;

  void bind(std::span<const BufferRef> from, std::span<const BufferRef> to) {
    for (std::size_t i = 0; i < reads.size(); ++i) reads[i].buffer = from[i];
    writes.assign(to.begin(), to.end());
  }
  std::vector<WrittenBuffer> written() const {
    std::vector<WrittenBuffer> buffers;
    for (const BufferRef& buffer : writes) {
      const bool logarithms = !gradient && buffers.size() == 1;
      buffers.push_back({buffer, logarithms ? DType::f32 : dtype});
    }
    return buffers;
  }

  // See ConvStep::numbers.
  using Numbers = std::array<std::int64_t, 15>;
  Numbers numbers() const {
    return {static_cast<std::int64_t>(dtype),
            gradient,
            causal,
            heads_first,
            deterministic,
            std::bit_cast<std::int64_t>(scale),
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            size,
            static_cast<std::int64_t>(by),
            masked,
            static_cast<std::int64_t>(mask)};
  }
  static AttentionStep of(std::span<const std::int64_t, std::tuple_size_v<Numbers>> numbers) {
    AttentionStep s;
    s.dtype = static_cast<DType>(numbers[0]);
    s.gradient = numbers[1] != 0;
    s.causal = numbers[2] != 0;
    s.heads_first = static_cast<unsigned>(numbers[3]);
    s.deterministic = numbers[4] != 0;
    s.scale = std::bit_cast<double>(numbers[5]);
    s.batch = numbers[6];
    s.heads = numbers[7];
    s.kv_heads = numbers[8];
    s.queries = numbers[9];
    s.keys = numbers[10];
    s.size = numbers[11];
    s.by = static_cast<By>(numbers[12]);
    s.masked = numbers[13] != 0;
    s.mask = static_cast<DType>(numbers[14]);
    return s;
  }
};

struct LoopPart;

// Steps that run many times, one iteration after the other. Their buffers move from one iteration
// to the next (BufferRef::offset_in).
struct LoopStep {
  std::vector<LoopPart> parts;         // one after the other
  std::vector<WrittenBuffer> results;  // the buffers that hold results
  BufferRef scratch;                   // values between iterations, temporaries of an iteration
  std::string label;

  void bind(std::span<const BufferRef>, std::span<const BufferRef> writes) {
    for (std::size_t i = 0; i < writes.size(); ++i) results[i].buffer = writes[i];
  }
  std::vector<WrittenBuffer> written() const { return results; }
};

using Step = std::variant<KernelStep, MatmulStep, SortStep, ConvStep, AttentionStep, LoopStep>;

inline std::vector<WrittenBuffer> written_by(const Step& step) {
  return std::visit([](const auto& one) { return one.written(); }, step);
}

// The cost of a step, computed from its sizes alone.
struct StepCost {
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::uint64_t operations = 0;
};

// Some iterations of a loop, which have the same steps: kernels and products.
struct LoopPart {
  std::int64_t first = 0, count = 0;  // iterations; counted through all parts
  std::vector<Step> steps;
  std::vector<StepCost> costs;  // one per step, for one iteration
};

struct PlanSteps {
  std::uint32_t id = 0;      // unique within the process
  std::uint32_t stream = 0;  // the compute stream it runs in
  bool low_memory = false;   // runs slower instead of failing if there is no memory for workspaces
  std::vector<Step> steps;
  std::vector<StepCost> costs;  // one per step
  std::vector<std::uint64_t> leaf_bytes;
  std::vector<std::uint64_t> output_bytes;
  std::uint64_t arena_bytes = 0;
  std::uint32_t arg_words = 0;  // 8-byte words in the argument block
};

}  // namespace volta::plan
