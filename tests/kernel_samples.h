// Hand-built kernel programs with bindings and data, for the tests of the emitter and of every
// backend. `samples()` lists them; `make_buffers` fills the slots of a binding; `compare` checks
// against the reference.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernel/philox.h"
#include "kernel/program.h"
#include "kernel_reference.h"

namespace volta::testing {

// One use of a sample's program.
struct SampleBinding {
  std::vector<std::int64_t> ints;
  std::vector<std::int64_t> elements;  // per slot
  std::vector<std::uint64_t> args;
};

struct Sample {
  std::string name;
  kernel::Program program;
  std::vector<SampleBinding> bindings =
      {};                         // horizontal: the segments of one launch; else separate runs
  std::int64_t index_high = 100;  // integer slots are filled with values below this
  bool with_nans = false;         // some floats of read slots are NaN
  bool bad_index = false;         // a Bounded meets a value out of range
  double tolerance = 2e-5;        // relative to max(1, |expected|)
};

inline std::uint64_t float_arg(double value) { return std::bit_cast<std::uint64_t>(value); }
inline std::uint64_t int_arg(std::int64_t value) { return std::bit_cast<std::uint64_t>(value); }

// Builds a program; `finish` sets the flags that follow from the instructions.
class ProgramBuilder {
 public:
  using Int = kernel::Int;
  using Affine = kernel::Affine;
  using Instr = kernel::Instr;
  using Kind = kernel::InstrKind;

  Int param() { return Int::param(program_.int_params++); }
  int axis(Int extent, kernel::Role role = kernel::Role::Par) {
    program_.axes.push_back({extent, role});
    return static_cast<int>(program_.axes.size()) - 1;
  }
  int red(Int extent) { return axis(extent, kernel::Role::Red); }
  int slot(DType dtype) {
    program_.slots.push_back({dtype});
    return static_cast<int>(program_.slots.size()) - 1;
  }
  int push(Instr instr) {
    program_.instrs.push_back(std::move(instr));
    return static_cast<int>(program_.instrs.size()) - 1;
  }

  static Affine at(std::vector<kernel::Term> terms, Int offset = {}) {
    return {std::move(terms), offset};
  }
  static Int one() { return Int::literal(1); }

  int constant(DType dtype, double value) {
    return push({.kind = Kind::Const, .dtype = dtype, .constant = value});
  }
  int arg(DType dtype) {
    program_.args.push_back(dtype);
    return push(
        {.kind = Kind::Arg, .dtype = dtype, .slot = static_cast<int>(program_.args.size()) - 1});
  }
  int index(DType dtype, Affine affine) {
    return push({.kind = Kind::Index, .dtype = dtype, .index = std::move(affine)});
  }
  int load(int slot, Affine affine, std::vector<kernel::Bound> mask = {}, double fill = 0) {
    return push({.kind = Kind::Load,
                 .dtype = program_.slots[static_cast<std::size_t>(slot)].dtype,
                 .slot = slot,
                 .index = std::move(affine),
                 .mask = std::move(mask),
                 .constant = fill});
  }
  int gather(int slot, Affine affine, int value, Int stride) {
    const int n = load(slot, std::move(affine));
    program_.instrs.back().a = value;
    program_.instrs.back().value_stride = stride;
    return n;
  }
  int bounded(int a, Int high, Int site) {
    return push({.kind = Kind::Bounded, .dtype = dtype(a), .a = a, .high = high, .site = site});
  }
  int cast(int a, DType to) { return push({.kind = Kind::Cast, .dtype = to, .a = a}); }
  int op(kernel::ScalarOp op, int a, int b = -1, int c = -1) {
    const bool truth = kernel::info(op).result == kernel::ScalarResult::Bool;
    const DType result = op == kernel::ScalarOp::where ? dtype(b)
                         : truth                       ? DType::boolean
                                                       : dtype(a);
    return push({.kind = Kind::Op, .dtype = result, .op = op, .a = a, .b = b, .c = c});
  }
  int philox(DType dtype, int seed, int offset, Affine element) {
    return push({.kind = Kind::Philox,
                 .dtype = dtype,
                 .a = seed,
                 .b = offset,
                 .index = std::move(element)});
  }
  int reduce(kernel::ReduceOp op, int a) {
    const bool arg = op == kernel::ReduceOp::ArgMax || op == kernel::ReduceOp::ArgMin;
    return push({.kind = Kind::Reduce, .dtype = arg ? DType::i64 : dtype(a), .reduce = op, .a = a});
  }
  int scan(int a, bool reverse, int start = -1) {
    return push({.kind = Kind::Scan, .dtype = dtype(a), .a = a, .b = start, .reverse = reverse});
  }
  int search(int slot, int value, Int stride, Int count) {
    return push({.kind = Kind::Search,
                 .dtype = DType::i32,
                 .a = value,
                 .slot = slot,
                 .value_stride = stride,
                 .high = count});
  }
  void bound(int axis, int instr) { program_.axes[static_cast<std::size_t>(axis)].bound = instr; }
  void store(int slot, Affine affine, int a, std::vector<kernel::Bound> mask = {}) {
    push({.kind = Kind::Store,
          .dtype = dtype(a),
          .a = a,
          .slot = slot,
          .index = std::move(affine),
          .mask = std::move(mask)});
  }
  void store_once(int slot, Affine affine, int a) {
    store(slot, std::move(affine), a);
    program_.instrs.back().once = true;
  }

  kernel::Program finish(kernel::Schedule schedule) {
    for (const Instr& instr : program_.instrs) {
      if (instr.kind == Kind::Load || instr.kind == Kind::Search)
        program_.slots[static_cast<std::size_t>(instr.slot)].read = true;
      if (instr.kind == Kind::Store)
        program_.slots[static_cast<std::size_t>(instr.slot)].written = true;
    }
    program_.schedule = schedule;
    return program_;
  }

 private:
  DType dtype(int n) const { return program_.instrs[static_cast<std::size_t>(n)].dtype; }

  kernel::Program program_;
};

using Op = kernel::ScalarOp;
using Build = ProgramBuilder;

inline kernel::Schedule map_schedule(int vec = 1, bool horizontal = false) {
  return {.kind = kernel::ScheduleKind::Map, .vec = vec, .horizontal = horizontal};
}
inline kernel::Schedule row_schedule(int lanes, int items = 0, bool horizontal = false) {
  return {
      .kind = kernel::ScheduleKind::Row, .lanes = lanes, .items = items, .horizontal = horizontal};
}
inline std::string row_suffix(int lanes, int items) {
  return "_lanes" + std::to_string(lanes) + "_items" + std::to_string(items);
}

// y = tanh(x * scale + bias[column]), positive = y > 0
inline Sample elementwise_sample(int vec) {
  Build b;
  const auto rows = b.param(), columns = b.param();
  const int i = b.axis(rows), j = b.axis(columns);
  const int x = b.slot(DType::f32), bias = b.slot(DType::f32), y = b.slot(DType::f32);
  const int positive = b.slot(DType::boolean);
  const auto here = Build::at({{i, columns}, {j, Build::one()}});
  const int scale = b.arg(DType::f32);
  const int scaled = b.op(Op::mul, b.load(x, here), scale);
  const int value =
      b.op(Op::tanh, b.op(Op::add, scaled, b.load(bias, Build::at({{j, Build::one()}}))));
  b.store(y, here, value);
  b.store(positive, here, b.op(Op::lt, b.constant(DType::f32, 0), value));
  return {.name = "elementwise_vec" + std::to_string(vec),
          .program = b.finish(map_schedule(vec)),
          .bindings = {{{17, 37}, {629, 37, 629, 629}, {float_arg(0.7)}},
                       {{8, 64}, {512, 64, 512, 512}, {float_arg(-1.3)}},
                       {{0, 64}, {0, 64, 0, 0}, {float_arg(1)}},
                       {{5, 0}, {0, 0, 0, 0}, {float_arg(1)}}}};
}

// A contiguous f16 and bf16 chain: half = f16(exp(bf16 x)), brain = bf16(x * third)
inline Sample storage_types_sample(int vec) {
  Build b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::bf16), h = b.slot(DType::f16), half = b.slot(DType::f16);
  const int brain = b.slot(DType::bf16);
  const auto here = Build::at({{i, Build::one()}});
  const int wide = b.cast(b.load(x, here), DType::f32);
  const int sum = b.op(Op::add, b.op(Op::exp, wide), b.cast(b.load(h, here), DType::f32));
  b.store(half, here, b.cast(sum, DType::f16));
  b.store(brain, here, b.cast(b.op(Op::mul, wide, b.constant(DType::f32, 1.0 / 3)), DType::bf16));
  return {.name = "storage_types_vec" + std::to_string(vec),
          .program = b.finish(map_schedule(vec)),
          .bindings = {{{1000}, {1000, 1000, 1000, 1000}, {}}, {{3}, {3, 3, 3, 3}, {}}},
          .with_nans = true,
          .tolerance = 9e-3};
}

// Every scalar op of every compute dtype, each into its own output.
inline Sample all_ops_sample(DType dtype) {
  Build b;
  const int i = b.axis(b.param());
  const auto here = Build::at({{i, Build::one()}});
  const int x = b.slot(dtype), y = b.slot(dtype);
  const int a = b.load(x, here), c = b.load(y, here);
  const int positive = b.op(Op::abs, a);
  for (int n = 0; n < kernel::kScalarOpCount; ++n) {
    const Op op = static_cast<Op>(n);
    const kernel::ScalarOpInfo& info = kernel::info(op);
    if (*(is_floating(dtype) ? info.float_expression : info.integer_expression) == '\0') continue;
    const bool root =
        op == Op::log || op == Op::log1p || op == Op::sqrt || op == Op::rsqrt || op == Op::pow;
    int value = -1;
    if (op == Op::where) {
      value = b.op(op, b.op(Op::lt, a, c), a, c);
    } else {
      value = b.op(op, root ? positive : a, info.arity == 2 ? c : -1);
    }
    b.store(b.slot(info.result == kernel::ScalarResult::Bool ? DType::boolean : dtype), here,
            value);
  }
  Sample sample{.name = "all_ops_" + std::string(name_of(dtype)),
                .program = b.finish(map_schedule())};
  sample.bindings = {{{300}, std::vector<std::int64_t>(sample.program.slots.size(), 300), {}}};
  sample.tolerance = dtype == DType::f32 ? 2e-5 : 1e-12;
  return sample;
}

// Casts from one dtype to all others.
inline Sample casts_sample(DType from) {
  Build b;
  const int i = b.axis(b.param());
  const auto here = Build::at({{i, Build::one()}});
  const int a = b.load(b.slot(from), here);
  for (int n = 0; n < kDTypeCount; ++n) {
    const DType to = static_cast<DType>(n);
    // A negative float has no u8; the difference between targets is no business of Volta's.
    if (is_floating(from) && to == DType::u8) continue;
    b.store(b.slot(to), here, b.cast(a, to));
  }
  Sample sample{.name = "casts_" + std::string(name_of(from)), .program = b.finish(map_schedule())};
  sample.bindings = {{{300}, std::vector<std::int64_t>(sample.program.slots.size(), 300), {}}};
  return sample;
}

// y = exp(x - max) / sum over the last axis of [rows, length]
inline Sample softmax_sample(int lanes, int items, bool bf16 = false) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const DType storage = bf16 ? DType::bf16 : DType::f32;
  const int x = b.slot(storage), y = b.slot(storage);
  const auto here = Build::at({{i, length}, {r, Build::one()}});
  int value = b.load(x, here);
  if (bf16) value = b.cast(value, DType::f32);
  const int max = b.reduce(kernel::ReduceOp::Max, value);
  const int e = b.op(Op::exp, b.op(Op::sub, value, max));
  int result = b.op(Op::div, e, b.reduce(kernel::ReduceOp::Sum, e));
  if (bf16) result = b.cast(result, DType::bf16);
  b.store(y, here, result);
  const std::int64_t longest = items > 0 ? std::int64_t{lanes} * items : 700;
  return {.name = std::string(bf16 ? "softmax_bf16" : "softmax") + row_suffix(lanes, items),
          .program = b.finish(row_schedule(lanes, items)),
          .bindings = {{{13, longest - 3}, {13 * (longest - 3), 13 * (longest - 3)}, {}},
                       {{5, 1}, {5, 5}, {}},
                       {{3, 0}, {0, 0}, {}}},
          .tolerance = bf16 ? 9e-3 : 2e-5};
}

// y[column] = sum over rows
inline Sample column_sum_sample() {
  Build b;
  const auto rows = b.param(), columns = b.param();
  const int j = b.axis(columns), r = b.red(rows);
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  b.store(y, Build::at({{j, Build::one()}}),
          b.reduce(kernel::ReduceOp::Sum, b.load(x, Build::at({{j, Build::one()}, {r, columns}}))));
  return {.name = "column_sum",
          .program = b.finish(row_schedule(1)),
          .bindings = {{{129, 70}, {9030, 70}, {}}, {{0, 9}, {0, 9}, {}}, {{4, 0}, {0, 0}, {}}}};
}

// All reductions of x[p, q, r, s] over (q, s), two Par and two Red axes.
inline Sample reductions_sample(DType dtype, int lanes, bool with_nans = false, int items = 0) {
  Build b;
  const auto p = b.param(), q = b.param(), r = b.param(), s = b.param();
  const auto stride_p = b.param(), stride_q = b.param();
  const int ap = b.axis(p), ar = b.axis(r), aq = b.red(q), as = b.red(s);
  const int x = b.slot(dtype);
  const int value =
      b.load(x, Build::at({{ap, stride_p}, {ar, s}, {aq, stride_q}, {as, Build::one()}}));
  const auto out = Build::at({{ap, r}, {ar, Build::one()}});
  using enum kernel::ReduceOp;
  const int scaled = is_floating(dtype) ? b.op(Op::mul, value, b.constant(dtype, 0.5))
                                        : b.op(Op::sub, value, value);
  b.store(b.slot(dtype), out, b.reduce(Sum, value));
  b.store(b.slot(dtype), out, b.reduce(Prod, scaled));
  b.store(b.slot(dtype), out, b.reduce(Max, value));
  b.store(b.slot(dtype), out, b.reduce(Min, value));
  b.store(b.slot(DType::i64), out, b.reduce(ArgMax, value));
  b.store(b.slot(DType::i64), out, b.reduce(ArgMin, value));
  const auto binding = [](std::int64_t np, std::int64_t nq, std::int64_t nr, std::int64_t ns) {
    const std::int64_t in = np * nq * nr * ns, kept = np * nr;
    return SampleBinding{
        {np, nq, nr, ns, nq * nr * ns, nr * ns}, {in, kept, kept, kept, kept, kept, kept}, {}};
  };
  return {.name = std::string(with_nans ? "reductions_nan_" : "reductions_") +
                  std::string(name_of(dtype)) + row_suffix(lanes, items),
          .program = b.finish(row_schedule(lanes, items)),
          .bindings = {binding(3, 7, 5, 41), binding(2, 1, 3, 2), binding(2, 0, 3, 4)},
          .index_high = 9,
          .with_nans = with_nans,
          .tolerance = dtype == DType::f32 ? 1e-4 : 1e-11};
}

// y[p] = sum over three Red axes, one of them of literal extent 1; the position of the maximum;
// the first sum and the first element
inline Sample three_reds_sample(int lanes) {
  Build b;
  const auto p = b.param(), q = b.param(), r = b.param(), s = b.param();
  const auto stride_p = b.param(), stride_q = b.param();
  const int ap = b.axis(p), aq = b.red(q), ar = b.red(r), unit = b.red(Build::one()), as = b.red(s);
  const auto here =
      Build::at({{ap, stride_p}, {aq, stride_q}, {ar, s}, {unit, stride_q}, {as, Build::one()}});
  const int value = b.load(b.slot(DType::f32), here);
  const auto out = Build::at({{ap, Build::one()}});
  const int sum = b.reduce(kernel::ReduceOp::Sum, value);
  b.store(b.slot(DType::f32), out, sum);
  b.store(b.slot(DType::i64), out, b.reduce(kernel::ReduceOp::ArgMax, value));
  b.store_once(b.slot(DType::f32), Build::at({}), sum);
  b.store_once(b.slot(DType::f32), Build::at({}), value);
  const auto binding = [](std::int64_t np, std::int64_t nq, std::int64_t nr, std::int64_t ns) {
    return SampleBinding{
        {np, nq, nr, ns, nq * nr * ns, nr * ns}, {np * nq * nr * ns, np, np, 1, 1}, {}};
  };
  return {.name = "three_reds" + row_suffix(lanes, 0),
          .program = b.finish(row_schedule(lanes)),
          .bindings = {binding(4, 5, 7, 11), binding(3, 9, 2, 40), binding(2, 3, 0, 4)}};
}

// y = (x - mean) * rsqrt(var + eps) * weight + bias; mean and rstd are kept for the gradient
inline Sample layer_norm_sample(int lanes, int items) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::f32), weight = b.slot(DType::f32), bias = b.slot(DType::f32);
  const int y = b.slot(DType::f32), means = b.slot(DType::f32), rstds = b.slot(DType::f32);
  const auto here = Build::at({{i, length}, {r, Build::one()}}),
             row = Build::at({{i, Build::one()}});
  const auto column = Build::at({{r, Build::one()}});
  const int inverse = b.arg(DType::f32), eps = b.arg(DType::f32);
  const int value = b.load(x, here);
  const int mean = b.op(Op::mul, b.reduce(kernel::ReduceOp::Sum, value), inverse);
  const int centred = b.op(Op::sub, value, mean);
  const int squares = b.reduce(kernel::ReduceOp::Sum, b.op(Op::mul, centred, centred));
  const int rstd = b.op(Op::rsqrt, b.op(Op::add, b.op(Op::mul, squares, inverse), eps));
  const int scaled = b.op(Op::mul, b.op(Op::mul, centred, rstd), b.load(weight, column));
  b.store(y, here, b.op(Op::add, scaled, b.load(bias, column)));
  b.store(means, row, mean);
  b.store(rstds, row, rstd);
  const std::int64_t n = items > 0 ? std::int64_t{lanes} * items : 333;
  return {.name = "layer_norm" + row_suffix(lanes, items),
          .program = b.finish(row_schedule(lanes, items)),
          .bindings = {{{9, n},
                        {9 * n, n, n, 9 * n, 9, 9},
                        {float_arg(1.0 / static_cast<double>(n)), float_arg(1e-5)}}},
          .tolerance = 1e-4};
}

// out[n, d] = table[Bounded(index[n]), d]
inline Sample gather_sample(DType index_dtype, bool bad) {
  Build b;
  const auto count = b.param(), width = b.param(), height = b.param(), site = b.param();
  const int n = b.axis(count), d = b.axis(width);
  const int indices = b.slot(index_dtype), table = b.slot(DType::f32), out = b.slot(DType::f32);
  const int index = b.bounded(b.load(indices, Build::at({{n, Build::one()}})), height, site);
  b.store(out, Build::at({{n, width}, {d, Build::one()}}),
          b.gather(table, Build::at({{d, Build::one()}}), index, width));
  const std::int64_t high = bad ? 60 : 100;  // indices below 100
  return {.name = std::string(bad ? "gather_bad_" : "gather_") + std::string(name_of(index_dtype)),
          .program = b.finish(map_schedule()),
          .bindings = {{{50, 12, high, 7}, {50, high * 12, 600}, {}}},
          .bad_index = bad};
}

// Cross-entropy's heart: out[i] = log(sum exp(x - max)) - (x[label] - max), a gather at a Par
// point.
inline Sample cross_entropy_sample(int lanes, int items) {
  Build b;
  const auto rows = b.param(), length = b.param(), site = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::f32), labels = b.slot(DType::i64), out = b.slot(DType::f32);
  const int value = b.load(x, Build::at({{i, length}, {r, Build::one()}}));
  const int max = b.reduce(kernel::ReduceOp::Max, value);
  const int sum = b.reduce(kernel::ReduceOp::Sum, b.op(Op::exp, b.op(Op::sub, value, max)));
  const int label = b.bounded(b.load(labels, Build::at({{i, Build::one()}})), length, site);
  const int picked = b.gather(x, Build::at({{i, length}}), label, Build::one());
  b.store(out, Build::at({{i, Build::one()}}),
          b.op(Op::sub, b.op(Op::log, sum), b.op(Op::sub, picked, max)));
  return {.name = "cross_entropy" + row_suffix(lanes, items),
          .program = b.finish(row_schedule(lanes, items)),
          .bindings = {{{21, 100, 3}, {2100, 21, 21}, {}}}};
}

// y = where(uniform < keep, x / keep, 0), with the raw words and f64 uniforms stored as well
inline Sample dropout_sample(int vec = 1) {
  Build b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::f32), y = b.slot(DType::f32), words = b.slot(DType::i64);
  const int doubles = b.slot(DType::f64);
  const auto here = Build::at({{i, Build::one()}});
  const int seed = b.arg(DType::i64), offset = b.arg(DType::i64), keep = b.arg(DType::f32);
  const int kept = b.op(Op::lt, b.philox(DType::f32, seed, offset, here), keep);
  const int scaled = b.op(Op::div, b.load(x, here), keep);
  b.store(y, here, b.op(Op::where, kept, scaled, b.constant(DType::f32, 0)));
  b.store(words, here, b.philox(DType::i64, seed, offset, here));
  b.store(doubles, here, b.philox(DType::f64, seed, offset, here));
  return {.name = "dropout_vec" + std::to_string(vec),
          .program = b.finish(map_schedule(vec)),
          .bindings = {{{1003},
                        {1003, 1003, 1003, 1003},
                        {int_arg(0x123456789abcdef), int_arg((std::int64_t{1} << 32) - 7),
                         float_arg(0.8)}}}};
}

// y[i, j] = x[i - top, j - left] inside, fill outside; the stored part skips the last column
inline Sample pad_sample() {
  Build b;
  const auto height = b.param(), width = b.param(), inner_height = b.param(),
             inner_width = b.param();
  const auto minus_top = b.param(), minus_left = b.param(), offset = b.param(), last = b.param();
  const int i = b.axis(height), j = b.axis(width);
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto inside =
      std::vector<kernel::Bound>{{Build::at({{i, Build::one()}}, minus_top), inner_height},
                                 {Build::at({{j, Build::one()}}, minus_left), inner_width}};
  const int value =
      b.load(x, Build::at({{i, inner_width}, {j, Build::one()}}, offset), inside, -2.5);
  b.store(y, Build::at({{i, width}, {j, Build::one()}}), value,
          {{Build::at({{j, Build::one()}}), last}});
  return {.name = "pad",
          .program = b.finish(map_schedule()),
          .bindings = {{{9, 11, 5, 6, -2, -3, -2 * 6 - 3, 10}, {30, 99}, {}}}};
}

// Adam's update of p, m, v in place; the step count is advanced once, into a slot of its own
inline Sample adam_sample(int vec, bool horizontal) {
  Build b;
  const int i = b.axis(b.param());
  const int p = b.slot(DType::f32), m = b.slot(DType::f32), v = b.slot(DType::f32),
            g = b.slot(DType::f32);
  const int step = b.slot(DType::f32), next_step = b.slot(DType::f32);
  const auto here = Build::at({{i, Build::one()}}), first = Build::at({});
  const int rate = b.arg(DType::f32), beta = b.arg(DType::f32);
  const int rest = b.op(Op::sub, b.constant(DType::f32, 1), beta);
  const int gradient = b.load(g, here);
  const int t = b.op(Op::add, b.load(step, first), b.constant(DType::f32, 1));
  const int correction = b.op(Op::neg, b.op(Op::expm1, b.op(Op::mul, t, b.op(Op::log, beta))));
  const int mean =
      b.op(Op::add, b.op(Op::mul, beta, b.load(m, here)), b.op(Op::mul, rest, gradient));
  const int square = b.op(Op::add, b.op(Op::mul, beta, b.op(Op::abs, b.load(v, here))),
                          b.op(Op::mul, rest, b.op(Op::mul, gradient, gradient)));
  const int scale = b.op(Op::add, b.op(Op::sqrt, b.op(Op::div, square, correction)),
                         b.constant(DType::f32, 1e-8));
  const int update = b.op(Op::div, b.op(Op::mul, rate, b.op(Op::div, mean, correction)), scale);
  b.store(p, here, b.op(Op::sub, b.load(p, here), update));
  b.store(m, here, mean);
  b.store(v, here, square);
  b.store_once(next_step, first, t);
  Sample sample{.name = horizontal ? "adam_horizontal_vec" + std::to_string(vec)
                                   : "adam_vec" + std::to_string(vec),
                .program = b.finish(map_schedule(vec, horizontal))};
  for (const std::int64_t n :
       {std::int64_t{1001}, std::int64_t{3}, std::int64_t{512}, std::int64_t{0}}) {
    sample.bindings.push_back({{n}, {n, n, n, n, 1, 1}, {float_arg(1e-2), float_arg(0.9)}});
  }
  sample.tolerance = 1e-4;
  return sample;
}

// out[i] = sum of squares of row i, the row scaled in place in a later phase
inline Sample normalize_rows_in_place_sample(int lanes, int items, bool horizontal) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::f32), out = b.slot(DType::f32);
  const auto here = Build::at({{i, length}, {r, Build::one()}});
  const int value = b.load(x, here);
  const int squares = b.reduce(kernel::ReduceOp::Sum, b.op(Op::mul, value, value));
  const int scale = b.op(Op::rsqrt, b.op(Op::add, squares, b.arg(DType::f32)));
  b.store(x, here, b.op(Op::mul, value, scale));
  b.store(out, Build::at({{i, Build::one()}}), squares);
  return {.name = std::string(horizontal ? "normalize_rows_horizontal" : "normalize_rows") +
                  row_suffix(lanes, items),
          .program = b.finish(row_schedule(lanes, items, horizontal)),
          .bindings = {{{40, 70}, {2800, 40}, {float_arg(0.1)}},
                       {{1, 64}, {64, 1}, {float_arg(0.2)}},
                       {{300, 9}, {2700, 300}, {float_arg(0.3)}}},
          .tolerance = 1e-4};
}

// A running mean updated in place at Par points: s[i] = 0.9 s[i] + 0.1 * max(row); the total is
// seen by lane 0
inline Sample running_state_sample(int lanes) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::f32), state = b.slot(DType::f32), count = b.slot(DType::i32);
  const auto row = Build::at({{i, Build::one()}});
  const int old = b.load(state, row);
  const int steps = b.load(count, row);
  b.store(count, row, b.op(Op::add, steps, b.constant(DType::i32, 1)));
  const int max =
      b.reduce(kernel::ReduceOp::Max, b.load(x, Build::at({{i, length}, {r, Build::one()}})));
  b.store(state, row,
          b.op(Op::add, b.op(Op::mul, old, b.constant(DType::f32, 0.9)),
               b.op(Op::mul, max, b.constant(DType::f32, 0.1))));
  return {.name = "running_state" + row_suffix(lanes, 0),
          .program = b.finish(row_schedule(lanes)),
          .bindings = {{{33, 50}, {1650, 33, 33}, {}}}};
}

// No axes: one point. Constants that need care when printed.
inline Sample scalar_sample() {
  Build b;
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const double constants[] = {0.1,
                              1e-40,
                              3e38,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN(),
                              -0.0};
  const int value = b.load(x, Build::at({}));
  b.store(y, Build::at({}), b.op(Op::maximum, value, b.constant(DType::f32, 16777217)));
  for (const double constant : constants) {
    b.store(b.slot(DType::f32), Build::at({}), b.constant(DType::f32, constant));
    b.store(b.slot(DType::f64), Build::at({}), b.constant(DType::f64, constant));
  }
  b.store(b.slot(DType::i64), Build::at({}), b.constant(DType::i64, -9007199254740991.0));
  b.store(b.slot(DType::i32), Build::at({}), b.constant(DType::i32, -2147483648.0));
  b.store(b.slot(DType::f16), Build::at({}), b.constant(DType::f16, 0.1));
  b.store(b.slot(DType::bf16), Build::at({}), b.constant(DType::bf16, 0.1));
  Sample sample{.name = "scalar", .program = b.finish(map_schedule())};
  sample.bindings = {{{}, std::vector<std::int64_t>(sample.program.slots.size(), 1), {}}};
  sample.tolerance = 0;
  return sample;
}

// out[i, j, k] = i32 and i64 index values of a transposed, reversed order, plus an i64 argument
inline Sample index_sample() {
  Build b;
  const auto p = b.param(), q = b.param(), r = b.param(), area = b.param(), last = b.param();
  const int i = b.axis(p), j = b.axis(q), k = b.axis(r);
  const int narrow = b.slot(DType::i32), wide = b.slot(DType::i64);
  const auto here = Build::at({{i, area}, {j, r}, {k, Build::one()}});
  b.store(narrow, here, b.index(DType::i32, Build::at({{i, Build::one()}, {j, p}})));
  const int reversed =
      b.index(DType::i64, Build::at({{k, ProgramBuilder::Int::literal(-1)}}, last));
  const int shifted = b.op(Op::add, reversed, b.arg(DType::i64));
  b.store(wide, here, shifted);
  b.store_once(b.slot(DType::i64), Build::at({}), shifted);  // that of the first point
  return {.name = "index",
          .program = b.finish(map_schedule()),
          .bindings = {{{3, 4, 5, 20, 4}, {60, 60, 1}, {int_arg(std::int64_t{1} << 40)}}}};
}

// Running sums of rows that start from a number per row, their largest, and the sum up to it.
inline Sample scan_sample(DType dtype, int lanes, bool reverse) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), j = b.red(length);
  const int x = b.slot(dtype), start = b.slot(dtype), sums = b.slot(dtype), tops = b.slot(dtype);
  const auto here = Build::at({{i, length}, {j, Build::one()}});
  const auto row = Build::at({{i, Build::one()}});
  const int value = b.load(x, here);
  const int from = b.load(start, row);
  const int sum = b.scan(b.op(Op::add, value, value), reverse, from);
  b.store(sums, here, b.op(Op::add, b.scan(value, reverse), sum));
  // A row that is walked back has its sums only: reductions count positions from the front.
  b.store(tops, row, reverse ? from : b.reduce(kernel::ReduceOp::Max, sum));
  return {.name = std::string(reverse ? "scan_back_" : "scan_") + std::string(name_of(dtype)) +
                  row_suffix(lanes, 0),
          .program = b.finish(row_schedule(lanes)),
          .bindings = {{{7, 37}, {259, 7, 259, 7}, {}},
                       {{3, 700}, {2100, 3, 2100, 3}, {}},
                       {{150, 3}, {450, 150, 450, 150}, {}},
                       {{4, 0}, {0, 4, 0, 4}, {}},
                       {{0, 9}, {0, 0, 0, 0}, {}}},
          .tolerance = 2e-4};
}

// Result (i, c) sums the first n(i) elements of column c; n(i): how many keys are below i.
inline Sample segments_sample(DType dtype) {
  Build b;
  const auto rows = b.param(), columns = b.param(), length = b.param(), count = b.param();
  const auto stride = b.param();
  const int i = b.axis(rows), c = b.axis(columns), j = b.red(length);
  const int keys = b.slot(DType::i64), x = b.slot(dtype), y = b.slot(dtype), n = b.slot(DType::i32);
  const int wanted = b.index(DType::i64, Build::at({{i, Build::one()}}));
  const int found = b.search(keys, wanted, stride, count);
  const int inside = b.op(Op::lt, b.index(DType::i32, Build::at({{j, Build::one()}})), found);
  const int value = b.load(x, Build::at({{c, Build::one()}, {j, columns}}));
  b.bound(j, found);
  const int kept = b.op(Op::where, inside, value, b.constant(dtype, 0));
  b.store(y, Build::at({{i, columns}, {c, Build::one()}}), b.reduce(kernel::ReduceOp::Sum, kept));
  b.store(n, Build::at({{i, columns}, {c, Build::one()}}), found);
  return {.name = "segments_" + std::string(name_of(dtype)),
          .program = b.finish(row_schedule(1)),
          .bindings = {{{9, 70, 5, 5, 1}, {5, 350, 630, 630}, {}},
                       {{40, 3, 20, 10, 2}, {20, 60, 120, 120}, {}},
                       {{4, 5, 0, 0, 1}, {0, 0, 20, 20}, {}}},
          .index_high = 1};  // all keys 0: nothing for row 0, everything for the others
}

inline std::vector<Sample> samples() {
  std::vector<Sample> all;
  for (const int vec : {1, 4}) {
    all.push_back(elementwise_sample(vec));
    all.push_back(storage_types_sample(vec * 2));
    all.push_back(adam_sample(vec, false));
    all.push_back(adam_sample(vec, true));
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    all.push_back(all_ops_sample(dtype));
    all.push_back(reductions_sample(dtype, 1));
    all.push_back(reductions_sample(dtype, 32));
    all.push_back(reductions_sample(dtype, 256));
  }
  all.push_back(reductions_sample(DType::f32, 8));
  all.push_back(reductions_sample(DType::f32, 64, false, 8));
  for (const int lanes : {1, 8, 64}) all.push_back(three_reds_sample(lanes));
  all.push_back(reductions_sample(DType::f32, 1, true));
  all.push_back(reductions_sample(DType::f32, 32, true));
  all.push_back(reductions_sample(DType::f32, 256, true));
  for (int n = 0; n < kDTypeCount; ++n) all.push_back(casts_sample(static_cast<DType>(n)));
  for (const auto& [lanes, items] :
       {std::pair{1, 0}, {4, 0}, {32, 0}, {32, 4}, {256, 0}, {256, 4}, {1024, 1}}) {
    all.push_back(softmax_sample(lanes, items));
  }
  all.push_back(softmax_sample(128, 2, true));
  for (const auto& [lanes, items] : {std::pair{1, 0}, {32, 0}, {64, 4}}) {
    all.push_back(layer_norm_sample(lanes, items));
    all.push_back(cross_entropy_sample(lanes, items));
  }
  all.push_back(column_sum_sample());
  for (const int lanes : {1, 32, 256}) {
    all.push_back(scan_sample(DType::f32, lanes, false));
    all.push_back(scan_sample(DType::f32, lanes, true));
    all.push_back(scan_sample(DType::i64, lanes, true));
  }
  all.push_back(segments_sample(DType::f32));
  all.push_back(segments_sample(DType::i32));
  all.push_back(gather_sample(DType::i32, false));
  all.push_back(gather_sample(DType::i64, false));
  all.push_back(gather_sample(DType::i64, true));
  for (const int vec : {1, 2, 4, 8}) all.push_back(dropout_sample(vec));
  all.push_back(pad_sample());
  for (const auto& [lanes, items] : {std::pair{1, 0}, {32, 4}, {128, 0}}) {
    all.push_back(normalize_rows_in_place_sample(lanes, items, false));
    all.push_back(normalize_rows_in_place_sample(lanes, items, true));
  }
  all.push_back(running_state_sample(1));
  all.push_back(running_state_sample(16));
  all.push_back(running_state_sample(128));
  all.push_back(scalar_sample());
  all.push_back(index_sample());
  return all;
}

using Bytes = std::vector<std::byte>;

// Deterministic contents for the slots of a binding: floats in [-2, 2), integers in [0,
// index_high), 0 or 1. Memory is a little larger than asked, so that empty slots have an address.
inline std::vector<Bytes> make_buffers(const Sample& sample, const SampleBinding& binding) {
  std::vector<Bytes> buffers;
  for (std::size_t n = 0; n < sample.program.slots.size(); ++n) {
    const DType dtype = sample.program.slots[n].dtype;
    Bytes bytes((static_cast<std::size_t>(binding.elements[n]) + 1) * size_of(dtype));
    for (std::int64_t e = 0; e < binding.elements[n]; ++e) {
      const std::uint32_t word = kernel::philox(n + 1, static_cast<std::uint64_t>(e))[0];
      Value value{.f = std::ldexp(word >> 8, -22) - 2,
                  .i = static_cast<std::int64_t>(word) % sample.index_high};
      if (dtype == DType::boolean) value.i = word & 1;
      if (sample.with_nans && word % 101 == 0) value.f = std::numeric_limits<double>::quiet_NaN();
      write_element(bytes.data(), e, dtype, value);
    }
    buffers.push_back(std::move(bytes));
  }
  return buffers;
}

inline std::vector<void*> pointers(std::vector<Bytes>& buffers) {
  std::vector<void*> all;
  for (Bytes& bytes : buffers) all.push_back(bytes.data());
  return all;
}

// The first difference between two elements of a binding's slots, in words; empty if none.
inline std::string compare(const Sample& sample, const SampleBinding& binding,
                           const std::vector<Bytes>& expected, const std::vector<Bytes>& actual) {
  for (std::size_t n = 0; n < sample.program.slots.size(); ++n) {
    const DType dtype = sample.program.slots[n].dtype;
    for (std::int64_t e = 0; e < binding.elements[n]; ++e) {
      const Value want = read_element(expected[n].data(), e, dtype);
      const Value got = read_element(actual[n].data(), e, dtype);
      bool same = want.i == got.i;
      if (is_floating(dtype)) {
        const double error = std::fabs(want.f - got.f);
        same = want.f == got.f || (std::isnan(want.f) && std::isnan(got.f)) ||
               error <= sample.tolerance * std::fmax(1, std::fabs(want.f));
      }
      if (!same) {
        std::ostringstream message;
        message << sample.name << ": slot " << n << " element " << e << ": expected "
                << (is_floating(dtype) ? want.f : static_cast<double>(want.i)) << ", got "
                << (is_floating(dtype) ? got.f : static_cast<double>(got.i));
        return message.str();
      }
    }
  }
  return {};
}

}  // namespace volta::testing
