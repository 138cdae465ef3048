// Kernel programs: the language in which the planner describes what a kernel computes. The CPU
// backend executes a program block by block; the C emitter prints it for CUDA and OpenCL.
//
// A program is structure only. Sizes, strides and offsets are integer parameters (`Int`), so that
// one compiled kernel serves all sizes; a `Binding` supplies the numbers and addresses for one use
// of a program.
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
// Binding::ints. Only 0, 1 and small structural counts should be literals.
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

// The iteration space, outermost axis first; all Par axes come before all Red axes. A program
// without axes has one iteration point. An extent may be 0 at run time: a Par extent of 0 stores
// nothing, and a Red extent of 0 makes reductions give their identity.
struct Axis {
  Int extent;
  Role role = Role::Par;
  // Red axes: an integer instruction with domain Par, or -1. Points at or past its value contribute
  // the identity to every Reduce and need not be visited. This allows rows of different lengths
  // (segments).
  int bound = -1;
};

// The sum of axis * coefficient over the terms, plus offset, in 64 bits. Each axis appears at most
// once, in increasing order.
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

// A buffer that the program reads or writes. A slot is `written` if some Store names it and `read`
// if some Load does. If both hold, every Load of it has the same index as its Store (in-place
// update).
struct Slot {
  DType dtype;
  bool read = false;
  bool written = false;
};

enum class ReduceOp : std::uint8_t { Sum, Prod, Max, Min, ArgMax, ArgMin };

enum class InstrKind : std::uint8_t {
  // `constant` as dtype.
  Const,
  // The program's scalar argument number `slot`, of dtype `dtype`.
  Arg,
  // The value of `index` (an Affine over axes) as i32 or i64.
  Index,
  // op(a, b, c). Operands and result have explicit dtypes; there is no implicit conversion.
  Op,
  // `a` converted to dtype: to bool as a != 0; floats are truncated to integers.
  Cast,
  // slot[index + a * value_stride] if all of `mask` holds, else `constant`. dtype is the slot's
  // dtype. `a` is -1 or the result of a Bounded instruction.
  Load,
  // Integer `a` clamped to [0, high); a value outside sets the error record, with `site`.
  Bounded,
  // i32: the number of i < high with slot[index + i * value_stride] < a, where these elements are
  // in ascending order.
  Search,
  // A word of Philox4x32-10; see philox.h. a: seed (i64), b: offset (i64), index: element number.
  Philox,
  // reduce(a) over all Red axes, in a's dtype. Max and Min propagate NaN. ArgMax and ArgMin give
  // the first position as i64, counted over the Red axes in row-major order. Without elements, Sum
  // is 0, Prod 1, and Max and Min are the lowest and highest value (floats: -inf and +inf).
  Reduce,
  // b (with domain Par; 0 if absent) plus the sum of a over the Red points up to this one, or from
  // this one on (`reverse`), in row-major order. All Scans of a program have the same direction.
  Scan,
  // slot[index] = a if all of `mask` holds; with `once`, only at the first iteration point.
  Store,
};

struct Instr {
  InstrKind kind;
  DType dtype = DType::f32;
  ScalarOp op = ScalarOp::add;
  ReduceOp reduce = ReduceOp::Sum;
  int a = -1, b = -1, c = -1;  // operands: earlier instructions
  int slot = -1;
  Affine index = {};
  Int value_stride = {};         // Load: factor of `a`; Search: distance between elements
  std::vector<Bound> mask = {};  // Load, Store
  // Const; for Load the fill value. Integers beyond 2^53 are passed as Arg.
  double constant = 0;
  Int high = {};         // Bounded; Search: the number of elements
  Int site = {};         // Bounded: identifies the location to report
  bool once = false;     // Store
  bool reverse = false;  // Scan
};

// How the iteration space is distributed over threads (or over SIMD blocks). Chosen by the planner.
enum class ScheduleKind : std::uint8_t {
  // Without Red axes and Reduces: one thread per iteration point, or per `vec` points of the last
  // axis.
  Map,
  // With at least one Red axis: `lanes` threads share each Par point.
  Row,
};
struct Schedule {
  ScheduleKind kind = ScheduleKind::Map;
  // Row: threads per Par point. With 1, neighbouring threads take neighbouring Par points, and each
  // loops over the Red axes alone (short rows, columns). With a larger power of two, up to 1024,
  // the threads stride over the linearised Red axes together. The CPU vectorises over the last Par
  // axis for 1, otherwise over the last Red axis.
  int lanes = 1;
  // Row with lanes > 1: the number of row elements that each thread keeps on chip between phases,
  // so that a row of at most lanes * items elements is read once. With 0, each phase reads the row
  // again.
  int items = 0;
  // Row with items and lanes > 32: the first `whole` items are known to lie inside the row and need
  // no test for its end. Rows must have at least lanes * whole elements, and vec - 1 more if they
  // are peeled.
  int whole = 0;
  // The number of neighbouring elements that a thread takes together, in accesses of up to 16
  // bytes: along the last axis (Map), the last Par axis (Row with one lane) or the last Red axis
  // (Row with more lanes; divides items). A Map's kernel tests alignment itself and accepts any
  // binding. A Row's binding must satisfy rows_allow_vectors (vectors.h), with slots aligned to 16
  // bytes.
  int vec = 1;
  // Row with lanes and vec: the first group starts at the first multiple of vec in memory, so that
  // rows may start and end anywhere. The up to vec - 1 elements before and after the groups are
  // taken by one lane each, in addition to its items. The binding must satisfy
  // rows_allow_peeled_vectors instead.
  bool peeled = false;
  // Map: a block takes tile x tile points of `tile_axis` and the last axis. Loads that are
  // contiguous along tile_axis (is_staged in vectors.h) pass through shared memory, so that loads
  // and stores are both coalesced. 0: no tiles.
  int tile = 0;
  int tile_axis = -1;
  // The threads of a block, a power of two; 0 means the default (block_threads in emit.h). Rows
  // with more than 32 lanes have as many threads as lanes.
  int threads = 0;
  bool index64 = false;  // some index may exceed 2^31 - 1
  // Several Bindings run in one launch; each is a segment with its own sizes and addresses.
  bool horizontal = false;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

struct Program {
  std::vector<Slot> slots;
  std::vector<DType> args;  // the dtypes of the scalar arguments
  std::vector<Axis> axes;
  std::vector<Instr> instrs;  // operands precede their uses
  Schedule schedule;
  int int_params = 0;  // the length of Binding::ints
};

// The axes over which an instruction's value varies, and the phase in which it is known.
enum class Domain : std::uint8_t { Uniform, Par, Full };
struct InstrInfo {
  Domain domain = Domain::Uniform;
  // Reductions divide a program into phases: an instruction belongs to the first phase in which its
  // operands are known. A Reduce belongs to the phase of its operand, its result to the next one.
  int phase = 0;
  int last_use = -1;  // the last phase in which some instruction needs the value; -1 if none does
};
struct Analysis {
  std::vector<InstrInfo> instrs;
  int phases = 1;
  bool has_bounded = false;
};
VOLTA_BACKEND_API Analysis analyze(const Program& program);

// The canonical text: equal programs have equal texts. Used as cache key and for debugging.
VOLTA_BACKEND_API std::string to_text(const Program& program);
// The same with another schedule.
VOLTA_BACKEND_API std::string to_text(const Program& program, const Schedule& schedule);
// The first line of a program's text: the schedule.
VOLTA_BACKEND_API std::string to_text(const Schedule& schedule);

// An estimate of the host memory that the program takes.
VOLTA_BACKEND_API std::uint64_t host_bytes(const Program& program);

// Throws BackendError that names the broken invariant. Cheap enough to run on every program.
VOLTA_BACKEND_API void validate(const Program& program);

// The report of kernels when a Bounded instruction gets a value out of range; the first one wins.
// Zero-initialised memory of this layout is bound to every program that contains Bounded.
struct ErrorRecord {
  std::int32_t claimed = 0;  // set atomically from 0 to 1
  std::int32_t site = 0;
  std::int64_t index = 0;
  std::int64_t high = 0;
};

}  // namespace volta::kernel
