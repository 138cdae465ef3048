// The planner's choice of schedules: the sizes and accesses that lead to vectors, tiles, lanes and
// rows in registers.
#include "plan/codegen/schedule.h"

#include <gtest/gtest.h>

#include "kernel/kernel_samples.h"
#include "kernel/vectors.h"

namespace volta::testing {
namespace {

using kernel::Schedule;

Schedule chosen(const kernel::Program& program, const std::vector<std::int64_t>& ints,
                bool massively_parallel = true) {
  kernel::Program result = program;
  result.schedule = plan::choose_schedule(program, ints, 1000, massively_parallel);
  EXPECT_NO_THROW(kernel::validate(result));
  return result.schedule;
}

// The first line of the text: the part of a kernel's key that describes its schedule.
std::string words(const kernel::Program& program, const std::vector<std::int64_t>& ints,
                  bool massively_parallel = true) {
  kernel::Program result = program;
  result.schedule = chosen(program, ints, massively_parallel);
  const std::string text = kernel::to_text(result);
  return text.substr(0, text.find('\n'));
}

// y[i, j] = x[i, j], with elements of `dtype`, and x with a stride and an offset.
kernel::Program copy(DType dtype) {
  Build b;
  const auto rows = b.param(), columns = b.param(), stride = b.param(), offset = b.param();
  const int i = b.axis(rows), j = b.axis(columns);
  const int x = b.slot(dtype), y = b.slot(dtype);
  b.store(y, Build::at({{i, columns}, {j, Build::one()}}),
          b.load(x, Build::at({{i, stride}, {j, Build::one()}}, offset)));
  return b.finish(map_schedule());
}

kernel::Program turned(DType dtype, int operands) {
  Build b;
  const auto rows = b.param(), columns = b.param();
  const int i = b.axis(rows), j = b.axis(columns);
  const int y = b.slot(dtype);
  int sum = b.constant(dtype, 1);
  for (int n = 0; n < operands; ++n) {
    sum = b.op(Op::add, sum, b.load(b.slot(dtype), Build::at({{i, Build::one()}, {j, rows}})));
  }
  b.store(y, Build::at({{i, columns}, {j, Build::one()}}), sum);
  return b.finish(map_schedule());
}

// The iterations of a loop may use a part of a buffer that begins anywhere.
TEST(ChooseSchedule, BuffersThatBeginAnywhereTakeNoVectors) {
  const std::vector<std::int64_t> ints = {1024, 1024, 1024, 0};
  const kernel::Schedule whole = plan::choose_schedule(copy(DType::f32), ints, 1000, true),
                         part = plan::choose_schedule(copy(DType::f32), ints, 1000, true, false);
  EXPECT_EQ(whole.vec, 4);
  EXPECT_EQ(part.vec, 1);
  const kernel::Program other = turned(DType::f32, 1);
  EXPECT_GT(plan::choose_schedule(other, {1024, 1024}, 1000, true).vec, 1);
  EXPECT_EQ(plan::choose_schedule(other, {1024, 1024}, 1000, true, false).vec, 1);
}

TEST(ChooseSchedule, MapsTakeVectorsOf16Bytes) {
  const std::vector<std::int64_t> ints = {1024, 1024, 1024, 0};
  EXPECT_EQ(words(copy(DType::f32), ints), "map vec 4");
  EXPECT_EQ(words(copy(DType::bf16), ints), "map vec 8");
  EXPECT_EQ(words(copy(DType::f64), ints), "map vec 2");
  EXPECT_EQ(words(copy(DType::boolean), ints), "map vec 8");
  EXPECT_EQ(words(elementwise_sample(1).program, {1024, 1024}), "map vec 4");  // f32 and bool
}

TEST(ChooseSchedule, SmallOrUnalignedMapsTakeElements) {
  EXPECT_EQ(words(copy(DType::f32), {1024, 256, 256, 0}), "map vec 1");    // few points
  EXPECT_EQ(words(copy(DType::f32), {1024, 1023, 1024, 0}), "map vec 1");  // rows end anywhere
  EXPECT_EQ(words(copy(DType::f32), {1024, 1024, 1027, 0}), "map vec 1");  // rows start anywhere
  EXPECT_EQ(words(copy(DType::f32), {1024, 1024, 1024, 1}), "map vec 1");
  EXPECT_EQ(words(copy(DType::f32), {0, 1024, 1024, 0}), "map vec 1");
  // A single long axis may have any length.
  EXPECT_EQ(words(adam_sample(1, false).program, {10'000'001}), "map vec 4");
}

TEST(ChooseSchedule, LoadsAcrossTheStoresAreStaged) {
  EXPECT_EQ(words(turned(DType::f32, 1), {8192, 8192}), "map vec 4 tile 64 along 0");
  EXPECT_EQ(words(turned(DType::f32, 1), {8192, 31}), "map vec 1");
  EXPECT_EQ(words(turned(DType::f32, 1), {31, 8192}), "map vec 1");
  EXPECT_EQ(words(turned(DType::f32, 1), {40, 40}), "map vec 1");
  // Shared memory is limited: smaller tiles, then none.
  EXPECT_EQ(words(turned(DType::f64, 2), {8192, 8192}), "map vec 2 tile 32 along 0");
  EXPECT_EQ(words(turned(DType::f64, 5), {8192, 8192}), "map vec 1");
}

TEST(ChooseSchedule, RowsStayInRegisters) {
  const kernel::Program softmax = softmax_sample(32, 0).program;
  EXPECT_EQ(words(softmax, {8192, 1024}), "row lanes 128 items 8 vec 4");
  EXPECT_EQ(words(softmax, {8192, 768}), "row lanes 128 items 8 vec 4");
  EXPECT_EQ(words(softmax, {8192, 8192}), "row lanes 512 items 16 vec 4");
  EXPECT_EQ(words(softmax, {1024, 50304}), "row lanes 512 items 100 whole 96 vec 4 peeled");
  EXPECT_EQ(words(softmax, {1024, 51204}), "row lanes 512 items 0 vec 4");
  EXPECT_EQ(words(softmax, {1024, 100000}), "row lanes 512 items 0 vec 4");
  EXPECT_EQ(words(softmax, {8192, 1023}), "row lanes 256 items 4");
  EXPECT_EQ(words(softmax, {65536, 64}), "row lanes 8 items 8 vec 4");
  EXPECT_EQ(words(softmax, {65536, 10}), "row lanes 1 items 0");
  // Few rows get more threads. With few elements one kernel serves all lengths.
  EXPECT_EQ(words(softmax, {128, 1024}), "row lanes 256 items 4 vec 4");
  EXPECT_EQ(words(softmax, {4, 1024}), "row lanes 256 items 4");
  EXPECT_EQ(words(layer_norm_sample(32, 0).program, {8192, 1024}), "row lanes 128 items 8 vec 4");
}

// Rows that may start and end anywhere, with equal alignment in all accesses.
TEST(ChooseSchedule, LongRowsLeaveTheirEndsToSingleLanes) {
  const kernel::Program softmax = softmax_sample(32, 0).program;
  const kernel::Program halves = softmax_sample(32, 0, true).program;
  EXPECT_EQ(words(softmax, {1024, 4095}), "row lanes 512 items 8");
  EXPECT_EQ(words(softmax, {1024, 4097}), "row lanes 512 items 8 whole 4 vec 4 peeled");
  EXPECT_EQ(words(softmax, {1024, 20001}), "row lanes 512 items 40 whole 36 vec 4 peeled");
  EXPECT_EQ(words(softmax, {1024, 50257}), "row lanes 512 items 100 whole 96 vec 4 peeled");
  EXPECT_EQ(words(softmax, {1024, 51203}), "row lanes 512 items 100 whole 96 vec 4 peeled");
  EXPECT_EQ(words(softmax, {1024, 51205}), "row lanes 512 items 0 vec 4 peeled");
  EXPECT_EQ(words(softmax, {16, 50257}), "row lanes 512 items 100 whole 96 vec 4 peeled");
  EXPECT_EQ(words(halves, {1024, 20001}), "row lanes 512 items 40 whole 32 vec 8 peeled");
  EXPECT_EQ(words(halves, {1024, 50257}), "row lanes 512 items 100 whole 96 vec 4 peeled");
  EXPECT_EQ(words(layer_norm_sample(32, 0).program, {1024, 50257}),
            "row lanes 512 items 100 whole 96 vec 4 peeled");
}

// y[i, r] = x[i, r] - max(x[i]), with x at a stride and an offset.
TEST(ChooseSchedule, RowsThatStartDifferentlyTakeElements) {
  Build b;
  const auto rows = b.param(), length = b.param(), stride = b.param(), offset = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const int x = b.load(b.slot(DType::f32), Build::at({{i, stride}, {r, Build::one()}}, offset));
  b.store(b.slot(DType::f32), Build::at({{i, length}, {r, Build::one()}}),
          b.op(Op::sub, x, b.reduce(kernel::ReduceOp::Max, x)));
  const kernel::Program program = b.finish(row_schedule(32));
  EXPECT_EQ(words(program, {1024, 8193, 8193, 0}), "row lanes 512 items 16 whole 12 vec 4 peeled");
  EXPECT_EQ(words(program, {1024, 8193, 8197, 8}), "row lanes 512 items 16 whole 12 vec 4 peeled");
  EXPECT_EQ(words(program, {1024, 8193, 8194, 0}), "row lanes 512 items 18 whole 16");
  EXPECT_EQ(words(program, {1024, 8193, 8193, 1}), "row lanes 512 items 18 whole 16");
  // The stride of a single row does not matter.
  EXPECT_EQ(words(program, {1, 131073, 131074, 0}), "row lanes 1024 items 0 vec 4 peeled");
}

TEST(ChooseSchedule, RowsOfOnePhaseAreReadOnce) {
  const kernel::Program sums = reductions_sample(DType::f32, 32).program;  // x[p, q, r, s]
  EXPECT_EQ(words(sums, {1024, 4, 1, 1024, 4096, 1024}), "row lanes 256 items 0 vec 4");
  EXPECT_EQ(words(sums, {1024, 4, 1, 1022, 4088, 1022}), "row lanes 256 items 0");
  // Few rows: the second pass of a long sum issues all its loads together.
  EXPECT_EQ(words(sums, {1, 1, 1, 2000, 2000, 2000}), "row lanes 512 items 4");
  EXPECT_EQ(words(sums, {1, 1, 1, 8193, 8193, 8193}), "row lanes 1024 items 0");
}

TEST(ChooseSchedule, ColumnsAreTakenTogetherWhereThereAreMany) {
  const kernel::Program sum = column_sum_sample().program;  // integers: rows, columns
  EXPECT_EQ(words(sum, {128, 1 << 19}), "row lanes 1 items 0 vec 4");
  EXPECT_EQ(words(sum, {128, 1 << 17}), "row lanes 1 items 0 vec 2");
  EXPECT_EQ(words(sum, {128, 1 << 16}), "row lanes 1 items 0");
  EXPECT_EQ(words(sum, {128, 8192}), "row lanes 1 items 0");
  EXPECT_EQ(words(sum, {128, (1 << 19) + 1}), "row lanes 1 items 0");
  EXPECT_EQ(words(sum, {128, 1024}), "row lanes 32 items 0");  // too few for a thread each
}

TEST(ChooseSchedule, TheCpuIsAskedForNoVectors) {
  EXPECT_EQ(words(copy(DType::f32), {1024, 1024, 1024, 0}, false), "map vec 1");
  EXPECT_EQ(words(turned(DType::f32, 1), {8192, 8192}, false), "map vec 1");
  EXPECT_EQ(words(softmax_sample(32, 0).program, {8192, 1024}, false), "row lanes 256 items 4");
  EXPECT_EQ(words(column_sum_sample().program, {128, 1 << 19}, false), "row lanes 1 items 0");
}

TEST(ChooseSchedule, VectorsOfRowsHoldForTheirNumbers) {
  for (const std::int64_t length : {32, 36, 64, 100, 1000, 1024, 4096, 4100}) {
    kernel::Program program = layer_norm_sample(32, 0).program;
    program.schedule = chosen(program, {4096, length});
    EXPECT_TRUE(kernel::rows_allow_vectors(program, {4096, length}, kernel::vector_axis(program),
                                           program.schedule.vec))
        << length;
    EXPECT_GE(program.schedule.lanes * program.schedule.items, length);
  }
}

// y = x - max(x), summed along the row: two phases, which nevertheless run in rounds.
TEST(ChooseSchedule, ScansKeepNothing) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), r = b.red(length);
  const auto here = Build::at({{i, length}, {r, Build::one()}});
  const int x = b.load(b.slot(DType::f32), here);
  const int shifted = b.op(Op::sub, x, b.reduce(kernel::ReduceOp::Max, x));
  b.store(b.slot(DType::f32), here, b.scan(shifted, false));
  const kernel::Program program = b.finish(row_schedule(32));
  EXPECT_EQ(words(program, {1024, 20000}), "row lanes 512 items 0");
  EXPECT_EQ(words(program, {1024, 50257}), "row lanes 512 items 0");
}

TEST(ChooseSchedule, WholeItemsLieInsideTheirRows) {
  for (const std::int64_t length :
       {8196,  8197,  8704,  9000,  9001,  10000, 12288, 16384, 16385, 16387, 16388,
        30000, 32768, 32769, 33000, 40001, 49151, 49152, 49155, 49156, 50257, 51200}) {
    const Schedule schedule = chosen(softmax_sample(32, 0).program, {1024, length});
    EXPECT_GT(schedule.whole, 0) << length;
    const std::int64_t ends = schedule.peeled ? schedule.vec - 1 : 0;
    EXPECT_LE(schedule.lanes * schedule.whole + ends, length);
    EXPECT_GE(schedule.lanes * schedule.items + ends, length);
  }
}

}  // namespace
}  // namespace volta::testing
