// Kernel programs: the one language in which the planner says what a kernel computes. The CPU
// backend executes a program block by block; the C emitter prints it for CUDA and OpenCL.
//
// A program is structure only. Sizes, strides and offsets are integer parameters (`Int`), so that
// one compiled kernel serves every size; a `Binding` gives one use of a program its numbers and
// addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volta/dtype.h"
#include "volta/export.h"

namespace volta::kernel {

enum class ScalarOp : std::uint8_t {
#define VOLTA_SCALAR_OP(name, ...) name,
#include "kernel/scalar_ops.def"
#undef VOLTA_SCALAR_OP
};
enum class ScalarResult : std::uint8_t { Same, Bool };
struct ScalarOpInfo {
  const char* name;
  int arity;
  ScalarResult result;
  const char* float_expression;
  const char* integer_expression;
};
VOLTA_BACKEND_API const ScalarOpInfo& info(ScalarOp op);
inline constexpr int kScalarOpCount = 0
#define VOLTA_SCALAR_OP(...) +1  // NOLINT(bugprone-macro-parentheses)
#include "kernel/scalar_ops.def"
#undef VOLTA_SCALAR_OP
    ;

// An integer of a program: a literal, which is part of its text, or the index of a parameter in
// Binding::ints. Only 0 and 1 (and small structural counts) are worth being literals.
struct Int {
  bool is_param = false;
  std::int64_t value = 0;  // the literal, or the parameter's index

  static Int literal(std::int64_t v) { return {false, v}; }
  static Int param(std::int64_t index) { return {true, index}; }
  bool is_literal(std::int64_t v) const { return !is_param && value == v; }
  std::int64_t in(const std::vector<std::int64_t>& ints) const {
    return is_param ? ints[static_cast<std::size_t>(value)] : value;
  }
  friend bool operator==(Int, Int) = default;
};

enum class Role : std::uint8_t { Par, Red };

// Iteration space, outermost axis first; all Par axes come before all Red axes. A program without
// axes has one iteration point. An extent may be 0 at run time (nothing is stored; reductions give
// their identity for each Par point).
struct Axis {
  Int extent;
  Role role = Role::Par;
  // Red: an integer instruction of Par points, or -1. Points at and past its value contribute the
  // identity to every Reduce, so they need not be visited: rows of different lengths (segments).
  int bound = -1;
};

// sum of axis * coefficient, plus offset. Axes appear at most once, in increasing order. 64-bit.
struct Term {
  int axis;
  Int coefficient;
};
struct Affine {
  std::vector<Term> terms;
  Int offset;
};

// 0 <= expression < high
struct Bound {
  Affine expression;
  Int high;
};

// A buffer the program reads or writes. A slot is `written` if some Store names it and `read` if
// some Load does. Where both hold, every Load of it has the index of its Store (in-place update).
struct Slot {
  DType dtype;
  bool read = false;
  bool written = false;
};

enum class ReduceOp : std::uint8_t { Sum, Prod, Max, Min, ArgMax, ArgMin };

enum class InstrKind : std::uint8_t {
  Const,  // `constant` as dtype
  Arg,    // scalar argument number `slot` of the program, of dtype `dtype`
  Index,  // the value of `index` (an Affine over axes) as i32 or i64
  Op,     // op(a, b, c): operands and result have explicit dtypes; no implicit conversion
  Cast,   // a converted to dtype (to bool: a != 0; float to integer truncates)
  Load,  // slot[index + a * value_stride] where all of `mask` hold, else `constant`; `a` may be -1.
         // dtype == the slot's dtype. `a`, if any, is the result of a Bounded instruction.
  Bounded,  // integer `a` clamped to [0, high); sets the error record (site) where it was outside
  Search,   // i32: how many i < high have slot[index + i * value_stride] < a; those elements do not
            // decrease with i
  Philox,   // word of Philox4x32-10: see philox.h. a: seed (i64), b: offset (i64), index: element
            // number
  Reduce,   // reduce(a) over all Red axes. Max/Min propagate NaN; Arg* give the first position
            // (i64), counted over the Red axes in row-major order. Result dtype == a's dtype (Arg*:
            // i64). Of no elements: Sum 0, Prod 1, Max/Min the lowest/highest value (floats:
            // -inf/+inf).
  Scan,     // b (of Par points; none: 0) plus the sum of a over the Red points up to this one, or
            // from this one on (`reverse`), in row-major order. All Scans of a program go one way.
  Store,    // slot[index] = a where all of `mask` hold; `once`: only at the first iteration point
};

struct Instr {
  InstrKind kind;
  DType dtype = DType::f32;
  ScalarOp op = ScalarOp::add;
  ReduceOp reduce = ReduceOp::Sum;
  int a = -1, b = -1, c = -1;  // operands: earlier instructions
  int slot = -1;
  Affine index = {};
  Int value_stride = {};         // Load: multiplies the value of `a`; Search: between elements
  std::vector<Bound> mask = {};  // Load, Store
  double constant = 0;           // Const; Load: the fill. Integers beyond 2^53 are passed as Arg.
  Int high = {};                 // Bounded; Search: the number of elements
  Int site = {};                 // Bounded: identifies the place to report
  bool once = false;             // Store
  bool reverse = false;          // Scan
};

// How the iteration space is laid over threads (or over SIMD blocks). Chosen by the planner.
enum class ScheduleKind : std::uint8_t {
  Map,  // no Red axes, no Reduce: one thread per iteration point (or per `vec` points of the last
        // axis)
  Row,  // at least one Red axis: `lanes` threads share each Par point
};
struct Schedule {
  ScheduleKind kind = ScheduleKind::Map;
  // Row: threads per Par point. 1: neighbouring threads take neighbouring Par points and each loops
  // over the Red axes alone (short rows, columns). 32 ... 1024, a power of two: the threads stride
  // over the linearised Red axes together. The CPU takes 1 as "vectorise over the last Par axis",
  // otherwise over the last Red axis.
  int lanes = 1;
  // Row with lanes > 1: elements of the row each thread keeps on chip between phases, so that a row
  // of at most lanes * items elements is read once. 0: the row is read again in each phase.
  int items = 0;
  // Row with items and lanes > 32: the first `whole` of them lie inside the row, so that nothing
  // tests them for its end. Rows must have lanes * whole elements or more,
  // and vec - 1 more where they are peeled.
  int whole = 0;
  // Neighbouring elements a thread takes together, in accesses of up to 16 bytes: of the last axis
  // (Map), the last Par axis (Row with one lane) or the last Red axis (Row with more; divides
  // items). A Map's kernel tests alignment itself and may be given any numbers. A Row's numbers
  // must be as rows_allow_vectors (vectors.h) says, its slots at multiples of 16 bytes.
  int vec = 1;
  // Row with lanes and vec: the first group begins where memory first is at a multiple of vec, so
  // that rows may start and end anywhere. The up to vec - 1 elements before the groups and after
  // them are taken by one lane each, besides its items. The numbers must be as
  // rows_allow_peeled_vectors says instead.
  bool peeled = false;
  // Map: a block takes tile x tile points of `tile_axis` and the last axis. Loads that walk
  // tile_axis element by element (is_staged in vectors.h) pass through shared memory, so that they
  // and the stores both run along lines. 0: none.
  int tile = 0;
  int tile_axis = -1;
  // Threads of a block, a power of two; 0: the usual number (block_threads in emit.h). Rows with
  // more than 32 lanes have as many threads as lanes.
  int threads = 0;
  bool index64 = false;  // some index may pass 2^31 - 1
  // Several Bindings run in one launch, each a segment with sizes and addresses of its own.
  bool horizontal = false;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

struct Program {
  std::vector<Slot> slots;
  std::vector<DType> args;  // dtypes of the scalar arguments
  std::vector<Axis> axes;
  std::vector<Instr> instrs;  // operands precede their uses
  Schedule schedule;
  int int_params = 0;  // length of Binding::ints
};

// What an instruction's value varies over, and when it is known.
enum class Domain : std::uint8_t { Uniform, Par, Full };
struct InstrInfo {
  Domain domain = Domain::Uniform;
  // Reductions cut a program into phases: an instruction belongs to the first phase in which its
  // operands are known; a Reduce belongs to the phase of its operand and its result to the next
  // one.
  int phase = 0;
  int last_use = -1;  // the last phase in which some instruction needs the value; -1: never used
};
struct Analysis {
  std::vector<InstrInfo> instrs;
  int phases = 1;
  bool has_bounded = false;
};
VOLTA_BACKEND_API Analysis analyze(const Program& program);

// The canonical text: equal programs have equal text. Cache key and debug dump.
VOLTA_BACKEND_API std::string to_text(const Program& program);
// Its first line: the schedule.
VOLTA_BACKEND_API std::string to_text(const Schedule& schedule);

// Throws BackendError naming the broken invariant. Cheap; run on every program that is built.
VOLTA_BACKEND_API void validate(const Program& program);

// What kernels leave behind when a Bounded instruction meets a value out of range; the first one
// wins. Zero-initialised memory of this layout is bound to every program that contains Bounded.
struct ErrorRecord {
  std::int32_t claimed = 0;  // set atomically from 0 to 1
  std::int32_t site = 0;
  std::int64_t index = 0;
  std::int64_t high = 0;
};

}  // namespace volta::kernel
