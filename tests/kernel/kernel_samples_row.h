// Hand-built kernel programs over rows: reductions, scans, segments.
#pragma once

#include <string>
#include <vector>

#include "kernel/kernel_sample.h"

namespace volta::testing {

// y = exp(x - max) / sum over the last axis of [rows, length].
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
  const int sum = b.reduce(kernel::ReduceOp::Sum, e);
  int result = b.op(Op::mul, e, b.op(Op::div, b.constant(DType::f32, 1), sum));
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

// y[p] = sum over three Red axes, one of them with the literal extent 1; the position of the
// maximum; the first sum and the first element.
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

// y = (x - mean) * rsqrt(var + eps) * weight + bias; mean and rstd are stored for the gradient.
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

// The core of cross-entropy: out[i] = log(sum exp(x - max)) - (x[label] - max), with a gather at a
// Par point.
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

// out[i] = sum of squares of row i; the row is scaled in place in a later phase.
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

// A running mean updated in place at Par points: s[i] = 0.9 s[i] + 0.1 * max(row). Lane 0 sees the
// total.
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

// Running sums of rows that start from a number per row, their maximum, and the sum up to it.
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
  // Rows that are scanned backwards have sums only, because reductions count positions from the
  // front.
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

// y[i, r] = table[sum of x[i] up to r, minus 1], z[i] = table[sum of x[i], minus 1]. Threads
// without an element, whose sums are 0, must not report a wrong index.
inline Sample checked_sums_sample(int lanes, bool reverse) {
  Build b;
  const auto rows = b.param(), length = b.param(), height = b.param(), site = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::i64), table = b.slot(DType::f32);
  const auto here = Build::at({{i, length}, {r, Build::one()}});
  const int minus_one = b.constant(DType::i64, -1);
  const int step = b.op(Op::add, b.load(x, here), b.constant(DType::i64, 1));
  const auto looked_up = [&](int sum) {
    const int index = b.bounded(b.op(Op::add, sum, minus_one), height, site);
    return b.gather(table, Build::at({}), index, Build::one());
  };
  b.store(b.slot(DType::f32), here, looked_up(b.scan(step, reverse)));
  const int sum = b.reduce(kernel::ReduceOp::Sum, step);
  b.store(b.slot(DType::f32), Build::at({{i, Build::one()}}), looked_up(sum));
  const auto binding = [](std::int64_t n, std::int64_t long_) {
    const std::int64_t high = 2 * long_;
    return SampleBinding{{n, long_, high, 7}, {n * long_, high, n * long_, n}, {}};
  };
  return {.name = std::string("checked_sums_") + (reverse ? "back" : "on") + row_suffix(lanes, 0),
          .program = b.finish(row_schedule(lanes)),
          .bindings = {binding(1, 64), binding(2, 33), binding(3, 64), binding(5, 100),
                       binding(17, 31), binding(3, 700)},
          .index_high = 2};
}

// Result (i, c) sums the first n(i) elements of column c, where n(i) is the number of keys below i.
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
          .index_high = 1};  // all keys are 0: row 0 gets nothing, the others everything
}

}  // namespace volta::testing
