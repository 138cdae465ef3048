// Hand-built kernel programs without reduced axes.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "kernel/kernel_sample.h"

namespace volta::testing {

// y = tanh(x * scale + bias[column]), positive = y > 0.
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

// A contiguous chain in f16 and bf16: half = f16(exp(bf16 x)), brain = bf16(x * third).
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

// Every scalar operation for every compute dtype, each with its own output.
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
    // A negative float has no u8 value, and targets may differ.
    if (is_floating(from) && to == DType::u8) continue;
    b.store(b.slot(to), here, b.cast(a, to));
  }
  Sample sample{.name = "casts_" + std::string(name_of(from)), .program = b.finish(map_schedule())};
  sample.bindings = {{{300}, std::vector<std::int64_t>(sample.program.slots.size(), 300), {}}};
  return sample;
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

// y = where(uniform < keep, x / keep, 0); the raw words and f64 uniforms are stored as well.
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

// y[i, j] = x[i - top, j - left] inside, fill outside; the stored part omits the last column.
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

// Adam's update of p, m, v in place; the step count is advanced once, in a slot of its own.
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

// A program without axes, which has one point, and constants that are difficult to print.
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

// out[i, j, k] = i32 and i64 index values in a transposed, reversed order, plus an i64 argument.
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

}  // namespace volta::testing
