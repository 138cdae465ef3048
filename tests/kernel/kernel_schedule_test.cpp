// One program gives the same results under every legal schedule: vectors, tiles, lanes and items at
// sizes around their boundaries, against the reference on the first OpenCL device. All schedules
// compile for CUDA, and vectors are vectors in PTX.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "backend/opencl/opencl_runner.h"
#include "kernel/vectors.h"
#include "plan/codegen/schedule.h"
#include "support/nvrtc_compile.h"

namespace volta::testing {
namespace {

using kernel::ReduceOp;
using kernel::Schedule;

// A program that is run under forced schedules, with its binding for two sizes.
struct Subject {
  Sample sample;
  std::function<SampleBinding(std::int64_t, std::int64_t)> bind;
};

SampleBinding filled(const Sample& sample, std::vector<std::int64_t> ints,
                     std::vector<std::int64_t> elements) {
  return {std::move(ints), std::move(elements), sample.bindings.front().args};
}

Subject elementwise() {
  const Sample sample = elementwise_sample(1);
  return {sample, [sample](std::int64_t rows, std::int64_t columns) {
            const std::int64_t n = rows * columns;
            return filled(sample, {rows, columns}, {n, columns, n, n});
          }};
}

Subject storage_types() {
  const Sample sample = storage_types_sample(1);
  return {sample, [sample](std::int64_t rows, std::int64_t columns) {
            const std::int64_t n = rows * columns;
            return filled(sample, {n}, {n, n, n, n});
          }};
}

Subject dropout() {
  const Sample sample = dropout_sample(1);
  return {sample, [sample](std::int64_t rows, std::int64_t columns) {
            const std::int64_t n = rows * columns;
            return filled(sample, {n}, {n, n, n, n});
          }};
}

Subject gathered_rows() {
  const Sample sample = gather_sample(DType::i32, false);
  return {sample, [sample](std::int64_t rows, std::int64_t columns) {
            return filled(sample, {rows, columns, 100, 7}, {rows, 100 * columns, rows * columns});
          }};
}

// y = x shifted by one element, added to itself in place: unaligned and aligned accesses.
Subject shifted() {
  Build b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto here = Build::at({{i, Build::one()}});
  const int next = b.load(x, Build::at({{i, Build::one()}}, Build::one()));
  b.store(y, here, b.op(Op::add, b.load(y, here), b.op(Op::sub, next, b.load(x, here))));
  Sample sample{.name = "shifted", .program = b.finish(map_schedule()), .bindings = {{}}};
  return {sample, [sample](std::int64_t rows, std::int64_t columns) {
            const std::int64_t n = rows * columns;
            return filled(sample, {n}, {n + 1, n});
          }};
}

// z[g, i, j] = f32 x[g, j, i] * scale + bf16 w[g, j, i] + f32 p[g, i, j] + q[i], with the border of
// a padded r[g, j - 1, i] and a bool: three staged operands, and others along the stores.
Subject turned() {
  Build b;
  const auto rows = b.param(), columns = b.param(), area = b.param();
  const int g = b.axis(Build::Int::literal(2)), i = b.axis(rows), j = b.axis(columns);
  const int x = b.slot(DType::f32), w = b.slot(DType::bf16), p = b.slot(DType::f32);
  const int q = b.slot(DType::f32), r = b.slot(DType::f32), z = b.slot(DType::f32);
  const int positive = b.slot(DType::boolean), count = b.slot(DType::f32);
  const auto along = Build::at({{g, area}, {i, columns}, {j, Build::one()}});
  const auto across = Build::at({{g, area}, {i, Build::one()}, {j, rows}});
  const auto minus_one = Build::Int::literal(-1);
  const int scale = b.arg(DType::f32);
  int sum = b.op(Op::mul, b.load(x, across), scale);
  sum = b.op(Op::add, sum, b.cast(b.load(w, across), DType::f32));
  sum = b.op(Op::add, sum, b.load(p, along));
  sum = b.op(Op::add, sum, b.load(q, Build::at({{i, Build::one()}})));
  const auto above = Build::at({{g, area}, {i, Build::one()}, {j, rows}}, b.param());
  sum = b.op(Op::add, sum,
             b.load(r, above, {{Build::at({{j, Build::one()}}, minus_one), columns}}, 0.5));
  b.store(z, along, sum);
  b.store(positive, along, b.op(Op::lt, b.constant(DType::f32, 0), sum));
  b.store_once(count, Build::at({}), sum);
  Sample sample{.name = "turned",
                .program = b.finish(map_schedule()),
                .bindings = {{{}, {}, {float_arg(0.75)}}}};
  return {sample, [sample](std::int64_t m, std::int64_t n) {
            const std::int64_t all = 2 * m * n;
            return filled(sample, {m, n, m * n, -m}, {all, all, all, m, all, all, all, 1});
          }};
}

// y[i, j] = x[j, i] for doubles.
Subject turned_doubles() {
  Build b;
  const auto rows = b.param(), columns = b.param();
  const int i = b.axis(rows), j = b.axis(columns);
  const int x = b.slot(DType::f64), y = b.slot(DType::f64);
  b.store(y, Build::at({{i, columns}, {j, Build::one()}}),
          b.load(x, Build::at({{i, Build::one()}, {j, rows}})));
  Sample sample{.name = "turned_doubles", .program = b.finish(map_schedule()), .bindings = {{}}};
  return {sample, [sample](std::int64_t m, std::int64_t n) {
            return filled(sample, {m, n}, {m * n, m * n});
          }};
}

Subject softmax(bool bf16) {
  const Sample sample = softmax_sample(32, 0, bf16);
  return {sample, [sample](std::int64_t rows, std::int64_t length) {
            return filled(sample, {rows, length}, {rows * length, rows * length});
          }};
}

Subject layer_norm() {
  const Sample sample = layer_norm_sample(32, 0);
  return {
      sample, [sample](std::int64_t rows, std::int64_t length) {
        const std::int64_t n = rows * length;
        SampleBinding binding = filled(sample, {rows, length}, {n, length, length, n, rows, rows});
        binding.args[0] = float_arg(1.0 / static_cast<double>(std::max<std::int64_t>(length, 1)));
        return binding;
      }};
}

Subject normalize_in_place() {
  const Sample sample = normalize_rows_in_place_sample(32, 4, false);
  return {sample, [sample](std::int64_t rows, std::int64_t length) {
            return filled(sample, {rows, length}, {rows * length, rows});
          }};
}

// The sum and the position of the maximum of each row of [rows, length], cut from a longer row and
// padded to `length` (the mask of a split reduction), with half of the elements dropped by Philox.
Subject masked_row() {
  Build b;
  const auto rows = b.param(), length = b.param(), high = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const auto here = Build::at({{i, length}, {r, Build::one()}});
  const int x = b.load(b.slot(DType::f32), here, {{here, high}}, 0.25);
  const int uniform =
      b.philox(DType::f32, b.constant(DType::i64, 3), b.constant(DType::i64, 9), here);
  const int kept = b.op(Op::where, b.op(Op::lt, uniform, b.constant(DType::f32, 0.5)), x,
                        b.constant(DType::f32, 0));
  const auto row = Build::at({{i, Build::one()}});
  b.store(b.slot(DType::f32), row, b.reduce(ReduceOp::Sum, kept));
  b.store(b.slot(DType::i64), row, b.reduce(ReduceOp::ArgMax, x));
  Sample sample{.name = "masked_row", .program = b.finish(row_schedule(32)), .bindings = {{}}};
  return {sample, [sample](std::int64_t rows_, std::int64_t length_) {
            const std::int64_t n = std::max<std::int64_t>(rows_ * length_ - 8, 0);
            return filled(sample, {rows_, length_, n}, {n, rows_, rows_});
          }};
}

// x[i, q, s] reduced over (q, s), with a stride between the rows of s.
Subject two_reds() {
  Build b;
  const auto rows = b.param(), length = b.param(), stride = b.param(), area = b.param();
  const int i = b.axis(rows), q = b.red(Build::Int::literal(3)), s = b.red(length);
  const auto here = Build::at({{i, area}, {q, stride}, {s, Build::one()}});
  const int x = b.load(b.slot(DType::f32), here);
  const int weight = b.load(b.slot(DType::f32), Build::at({{q, Build::one()}}));
  const int sum = b.reduce(ReduceOp::Sum, b.op(Op::mul, x, weight));
  b.store(b.slot(DType::f32), here, b.op(Op::sub, x, sum));
  b.store(b.slot(DType::f32), Build::at({{i, Build::one()}}), b.reduce(ReduceOp::Sum, weight));
  b.store(b.slot(DType::i64), Build::at({{i, Build::one()}}), b.reduce(ReduceOp::ArgMin, x));
  Sample sample{.name = "two_reds",
                .program = b.finish(row_schedule(32)),
                .bindings = {{}},
                .tolerance = 1e-4};
  return {sample, [sample](std::int64_t rows_, std::int64_t length_) {
            const std::int64_t stride_ = length_ + 8, n = rows_ * 3 * stride_;
            return filled(sample, {rows_, length_, stride_, 3 * stride_}, {n, 3, n, rows_, rows_});
          }};
}

// Rows of halves cut from a longer matrix and shared by two heads, beside rows of floats with the
// same alignment: y[h, i, r] = relu(x[h, i, r] - max) + bias[r] + shared[i, r], which only some of
// the rows add, and the position of the maximum; the first y is stored a second time.
Subject cut_rows() {
  Build b;
  const auto rows = b.param(), length = b.param(), stride = b.param(), area = b.param();
  const auto offset = b.param(), out_stride = b.param(), out_area = b.param(), some = b.param();
  const int h = b.axis(Build::Int::literal(2)), i = b.axis(rows), r = b.red(length);
  const int x = b.slot(DType::f16), y = b.slot(DType::f32), bias = b.slot(DType::f32);
  const int shared = b.slot(DType::f32), place = b.slot(DType::i64), first = b.slot(DType::f32);
  const auto here = Build::at({{h, area}, {i, stride}, {r, Build::one()}}, offset);
  const auto there = Build::at({{h, out_area}, {i, out_stride}, {r, Build::one()}}, offset);
  const int value = b.cast(b.load(x, here), DType::f32);
  const int below = b.op(Op::sub, value, b.reduce(ReduceOp::Max, value));
  const int added = b.load(shared, Build::at({{i, stride}, {r, Build::one()}}),
                           {{Build::at({{i, Build::one()}}), some}}, 0.25);
  int sum = b.op(Op::maximum, below, b.constant(DType::f32, -1));
  sum = b.op(Op::add, sum, b.load(bias, Build::at({{r, Build::one()}})));
  sum = b.op(Op::add, sum, added);
  b.store(y, there, sum);
  b.store(place, Build::at({{h, rows}, {i, Build::one()}}), b.reduce(ReduceOp::ArgMax, value));
  b.store_once(first, Build::at({}), sum);
  Sample sample{.name = "cut_rows", .program = b.finish(row_schedule(32)), .bindings = {{}}};
  return {sample, [sample](std::int64_t rows_, std::int64_t length_) {
            const std::int64_t stride_ = length_ + 1, area_ = rows_ * stride_;
            const std::int64_t out_stride_ = stride_ + 8, out_area_ = area_ + 16 + 8 * rows_;
            const std::int64_t out = 2 * out_area_ + 3;
            return filled(sample,
                          {rows_, length_, stride_, area_, 3, out_stride_, out_area_, rows_ / 2},
                          {2 * area_ + 3, out, length_, area_, 2 * rows_, 1});
          }};
}

// Batch norm written out over rows of x[length, rows]: statistics, the normalised x, a running mean
// in place, the position of the maximum, and a sum that several columns share.
Subject columns() {
  Build b;
  const auto width = b.param(), height = b.param();
  const int j = b.axis(width), r = b.red(height);
  const int x = b.slot(DType::f32), y = b.slot(DType::f32), running = b.slot(DType::f32);
  const int place = b.slot(DType::i64), factor = b.slot(DType::f32), total = b.slot(DType::f32);
  const int once = b.slot(DType::f32);
  const auto here = Build::at({{j, Build::one()}, {r, width}}),
             column = Build::at({{j, Build::one()}});
  const int inverse = b.arg(DType::f32);
  const int value = b.load(x, here);
  const int shared = b.reduce(ReduceOp::Sum, b.load(factor, Build::at({{r, Build::one()}})));
  const int mean = b.op(Op::mul, b.reduce(ReduceOp::Sum, value), inverse);
  const int centred = b.op(Op::sub, value, mean);
  const int variance =
      b.op(Op::mul, b.reduce(ReduceOp::Sum, b.op(Op::mul, centred, centred)), inverse);
  const int rstd = b.op(Op::rsqrt, b.op(Op::add, variance, b.constant(DType::f32, 0.01)));
  b.store(y, here, b.op(Op::mul, centred, rstd));
  b.store(place, column, b.reduce(ReduceOp::ArgMax, value));
  b.store(running, column,
          b.op(Op::add, b.op(Op::mul, b.load(running, column), b.constant(DType::f32, 0.9)),
               b.op(Op::mul, mean, shared)));
  b.store(total, column, shared);
  b.store_once(once, Build::at({}), mean);
  Sample sample{.name = "columns",
                .program = b.finish(row_schedule(1)),
                .bindings = {{{}, {}, {float_arg(0.02)}}},
                .tolerance = 1e-3};
  return {sample, [sample](std::int64_t height_, std::int64_t width_) {
            const std::int64_t n = width_ * height_;
            return filled(sample, {width_, height_}, {n, n, width_, width_, height_, width_, 1});
          }};
}

Subject column_sum() {
  const Sample sample = column_sum_sample();
  return {sample, [sample](std::int64_t height, std::int64_t width) {
            return filled(sample, {height, width}, {height * width, width});
          }};
}

constexpr std::int64_t kSizes[] = {0, 1, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 65};

struct Case {
  std::string name;
  Sample sample;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

bool fits(const kernel::Program& program, const SampleBinding& binding) {
  const Schedule& s = program.schedule;
  if (s.kind == kernel::ScheduleKind::Map) return true;
  std::int64_t length = 1;
  for (const kernel::Axis& axis : program.axes) {
    if (axis.role == kernel::Role::Red) length *= axis.extent.in(binding.ints);
  }
  const std::int64_t grouped = s.peeled ? length / s.vec * s.vec : length;
  if (s.items > 0 && grouped > std::int64_t{s.lanes} * s.items) return false;
  if (length < std::int64_t{s.lanes} * s.whole + (s.peeled ? s.vec - 1 : 0)) return false;
  if (s.peeled) return kernel::rows_allow_peeled_vectors(program, binding.ints, s.vec);
  return s.vec == 1 ||
         kernel::rows_allow_vectors(program, binding.ints, kernel::vector_axis(program), s.vec);
}

Case forced(const Subject& subject, const Schedule& schedule) {
  Case result{subject.sample.name, subject.sample};
  Sample& sample = result.sample;
  sample.program.schedule = schedule;
  sample.bindings.clear();
  const std::int64_t capacity = std::int64_t{schedule.lanes} * schedule.items;
  std::vector<std::int64_t> lengths(std::begin(kSizes), std::end(kSizes));
  const std::int64_t least = std::int64_t{schedule.lanes} * schedule.whole;
  for (const std::int64_t near :
       {least, least + 1, least + 3, least + schedule.vec, capacity - schedule.vec,
        capacity - schedule.vec + 1, capacity - 1, capacity, capacity + schedule.vec - 1}) {
    if (near > 65) lengths.push_back(near);
  }
  if (schedule.items == 0) {
    lengths.push_back(1028);
    lengths.push_back(1031);
  }
  for (const std::int64_t length : lengths) {
    for (const std::int64_t rows : {1, 3, 67}) {
      const SampleBinding binding = subject.bind(rows, length);
      if (fits(sample.program, binding)) sample.bindings.push_back(binding);
    }
  }
  result.name +=
      "_" + kernel::to_text(sample.program).substr(0, kernel::to_text(sample.program).find('\n'));
  std::replace_if(
      result.name.begin(), result.name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return result;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto map = [&](const Subject& subject, std::initializer_list<int> vecs) {
    for (const int vec : vecs) all.push_back(forced(subject, map_schedule(vec)));
  };
  map(elementwise(), {2, 4, 8});
  map(storage_types(), {4, 8});
  map(dropout(), {4});
  map(gathered_rows(), {2, 4});
  map(shifted(), {4});
  for (const auto& [tile, vec] : {std::pair{32, 4}, {64, 4}, {32, 8}}) {
    Schedule schedule = map_schedule(vec);
    schedule.tile = tile;
    schedule.tile_axis = 1;
    all.push_back(forced(turned(), schedule));
    schedule.tile_axis = 0;
    schedule.vec = 2;
    if (vec == 4) all.push_back(forced(turned_doubles(), schedule));
  }
  struct Lanes {
    int lanes, items, vec, whole = 0;
    bool peeled = false;
  };
  const auto row = [&](const Subject& subject, std::initializer_list<Lanes> schedules) {
    for (const Lanes& s : schedules) {
      Schedule schedule = row_schedule(s.lanes, s.items);
      schedule.vec = s.vec;
      schedule.whole = s.whole;
      schedule.peeled = s.peeled;
      all.push_back(forced(subject, schedule));
    }
  };
  row(softmax(false), {{8, 8, 4}, {32, 6, 1}, {128, 8, 4}, {64, 0, 4}, {8, 0, 4}, {64, 18, 1, 16}});
  row(softmax(false), {{8, 8, 4, 0, true}, {64, 0, 4, 0, true}, {64, 20, 4, 16, true}});
  row(softmax(true), {{16, 16, 8}, {128, 0, 8}, {64, 24, 8, 8, true}});
  row(layer_norm(), {{32, 4, 4}, {64, 16, 4}, {256, 0, 4}, {64, 18, 1}, {64, 20, 4, 16}});
  row(layer_norm(), {{16, 8, 4, 0, true}, {64, 12, 4, 4, true}, {256, 0, 4, 0, true}});
  row(normalize_in_place(), {{32, 8, 4}, {128, 2, 2}, {64, 8, 4, 4, true}, {32, 0, 2, 0, true}});
  row(cut_rows(), {{32, 0, 1}, {32, 8, 4, 0, true}, {64, 12, 4, 8, true}, {64, 0, 4, 0, true}});
  row(cut_rows(), {{16, 16, 8, 0, true}, {16, 0, 8, 0, true}, {32, 6, 2, 0, true}});
  row(masked_row(), {{32, 0, 1}, {32, 0, 4}, {256, 0, 4}});
  row(two_reds(), {{32, 0, 4}, {16, 16, 4}, {64, 8, 2}, {64, 4, 1, 2}});
  row(column_sum(), {{1, 0, 1}, {1, 0, 2}, {1, 0, 4}});
  row(columns(), {{1, 0, 1}, {1, 0, 2}, {1, 0, 4}});
  return all;
}

class KernelSchedule : public ::testing::TestWithParam<Case> {};

TEST_P(KernelSchedule, RunsAsTheReference) {
  static OpenClRunner runner;
  if (!runner.present()) GTEST_SKIP() << "no OpenCL device";
  const Sample& sample = GetParam().sample;
  ASSERT_NO_THROW(kernel::validate(sample.program));
  ASSERT_GT(sample.bindings.size(), 8u);
  std::vector<std::vector<Bytes>> expected, actual;
  kernel::ErrorRecord expected_error, error;
  for (const SampleBinding& binding : sample.bindings) {
    expected.push_back(make_buffers(sample, binding));
    actual.push_back(expected.back());
    run_reference(sample.program, binding.ints, pointers(expected.back()), binding.args.data(),
                  &expected_error);
  }
  ASSERT_NO_THROW(runner.run(sample, actual, error));
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    ASSERT_EQ(compare(sample, sample.bindings[n], expected[n], actual[n]), "")
        << ::testing::PrintToString(sample.bindings[n].ints);
  }
}

TEST_P(KernelSchedule, CompilesForCuda) {
  static const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  Sample sample = GetParam().sample;
  for (const bool wide : {false, true}) {
    sample.program.schedule.index64 = wide;
    const std::string text = kernel::emit(sample.program, kernel::Dialect::Cuda).text;
    EXPECT_NO_THROW(nvrtc.compile(text, "sm_90"));
  }
}

INSTANTIATE_TEST_SUITE_P(Forced, KernelSchedule, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

// Loads of 16 bytes use the read-only path, and stores have 16 bytes.
TEST(KernelPtx, VectorsAreVectors) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  const auto ptx = [&](const Subject& subject, const Schedule& schedule) {
    kernel::Program program = subject.sample.program;
    program.schedule = schedule;
    return nvrtc.ptx(kernel::emit(program, kernel::Dialect::Cuda).text, "compute_90");
  };
  const std::string fetch = "ld.global.nc.v4", store = "st.global.v4";
  const std::string map = ptx(elementwise(), map_schedule(4));
  EXPECT_EQ(count(map, fetch), 2) << map;
  EXPECT_EQ(count(map, store), 1);
  const std::string halves = ptx(storage_types(), map_schedule(8));
  EXPECT_EQ(count(halves, fetch), 2) << halves;
  EXPECT_EQ(count(halves, store), 2);
  Schedule tile = map_schedule(2);
  tile.tile = 64;
  tile.tile_axis = 0;
  const std::string turned = ptx(turned_doubles(), tile);
  EXPECT_EQ(count(turned, "ld.global.nc.v4"), 8) << turned;
  EXPECT_GT(count(turned, store), 0);
  Schedule row = row_schedule(128, 8);
  row.vec = 4;
  const std::string rows = ptx(softmax(false), row);
  EXPECT_EQ(count(rows, fetch), 4) << rows;
  EXPECT_EQ(count(rows, store), 4);  // for whole rows, and for others
  row.items = 0;
  EXPECT_GE(count(ptx(softmax(false), row), fetch), 3 * 4);
  row.items = 20;
  row.whole = 16;
  row.peeled = true;
  const std::string peeled = ptx(layer_norm(), row);
  EXPECT_EQ(count(peeled, fetch), 5) << peeled;
  EXPECT_EQ(count(peeled, store), 5);
  Schedule column = row_schedule(1);
  column.vec = 4;
  EXPECT_GE(count(ptx(columns(), column), fetch), 3 * 4);
}

// The longest rows that are kept in registers do not spill.
TEST(KernelPtx, LongRowsFitTheRegisters) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  for (const Subject& subject : {softmax(false), softmax(true), layer_norm()}) {
    for (const std::int64_t length : {40956, 45001, 50257, 50304, 51199, 51203}) {
      const SampleBinding binding = subject.bind(1024, length);
      kernel::Program program = subject.sample.program;
      program.schedule = plan::choose_schedule(program, binding.ints, 1024 * length, true);
      ASSERT_GE(program.schedule.items, 80) << length;
      const std::string words =
          nvrtc.resources(kernel::emit(program, kernel::Dialect::Cuda).text, "sm_90");
      EXPECT_EQ(count(words, " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), 1)
          << subject.sample.name << " " << length << ": " << words;
    }
  }
}

}  // namespace
}  // namespace volta::testing
