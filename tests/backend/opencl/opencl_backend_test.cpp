// The OpenCL backend through backend.h alone: devices, memory, arguments and horizontal launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/opencl/opencl_backend_testing.h"
#include "core/counting.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"

namespace volta::testing {
namespace {

TEST_F(OpenClBackendTest, DescribesItsDevices) {
  ASSERT_GT(backend().device_count(), 0);
  EXPECT_FALSE(backend().device_name(0).empty());
  EXPECT_GT(backend().device_memory(0), std::uint64_t{1} << 20);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i64, DType::boolean}) {
    EXPECT_TRUE(backend().supports(0, dtype)) << dtype;
  }
  for (int device = 1; device < backend().device_count(); ++device) {
    EXPECT_GE(backend().device_is_gpu(device - 1), backend().device_is_gpu(device))
        << "GPUs come first";
  }
}

TEST_F(OpenClBackendTest, RefusesAnotherBuildAndSaysWhyThereIsNoDevice) {
  const char* why = nullptr;
  EXPECT_EQ(entry_point()("another build", &why), nullptr);
  EXPECT_NE(std::string(why).find("another build"), std::string::npos) << why;

  const ScopedVariable filter("VOLTA_OPENCL_DEVICE", "no such device");
  EXPECT_EQ(create_backend(&why), nullptr);
  EXPECT_NE(std::string(why).find("VOLTA_OPENCL_DEVICE=no such device"), std::string::npos) << why;
}

TEST_F(OpenClBackendTest, FilterMatchesNamesWithoutCase) {
  std::string name = backend().device_name(0);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  const ScopedVariable filter("VOLTA_OPENCL_DEVICE", name);
  const char* why = nullptr;
  const auto filtered = create_backend(&why);
  ASSERT_NE(filtered, nullptr) << why;
  EXPECT_EQ(filtered->device_name(0), backend().device_name(0));
}

TEST_F(OpenClBackendTest, ExhaustedMemoryIsAnEmptyAddress) {
  EXPECT_EQ(backend().allocate(0, std::size_t{1} << 46).base, nullptr);
}

TEST_F(OpenClBackendTest, CopiesMoveBytesAlsoWithinOneBuffer) {
  std::vector<std::int32_t> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i);
  Chunk chunk(backend(), 16384);
  const Address from = chunk.put(bytes_of(values)), to = chunk.take(4000);
  backend().copy(0, to, from, 4000);
  EXPECT_EQ(fetch(backend(), to, 4000), bytes_of(values));

  const Address shifted{from.base, from.offset + 400};
  backend().copy(0, shifted, from, 2000);
  const Bytes expected = bytes_of(values);
  EXPECT_EQ(fetch(backend(), shifted, 2000), Bytes(expected.begin(), expected.begin() + 2000));
}

TEST_F(OpenClBackendTest, UploadTakesTheBytesBeforeItReturns) {
  for (const std::size_t count : {std::size_t{1000}, std::size_t{3} << 20}) {
    Chunk chunk(backend(), count * sizeof(float) + 4096);
    std::vector<float> values(count, 3.0f);
    const Bytes expected = bytes_of(values);
    const Address address = chunk.take(expected.size());
    backend().upload(0, address, values.data(), expected.size());
    std::fill(values.begin(), values.end(), 0.0f);
    EXPECT_TRUE(fetch(backend(), address, expected.size()) == expected);
  }
}

// Each run reads the arguments that it was given, however many runs are queued.
TEST_F(OpenClBackendTest, ArgumentsBelongToTheirRun) {
  Chunk chunk(backend(), 65536);
  const std::vector<float> zeros(1000, 0.0f);
  const Address x = chunk.put(bytes_of(zeros));
  const auto executable = backend().prepare(
      0, one_step(kernel_step(add_program(0),
                              {{{1000}, {{Ref::Kind::Leaf, 0, 0}, {Ref::Kind::Output, 0, 0}}, 1}},
                              "accumulate"),
                  2));
  const std::vector<Address> addresses{x};
  double total = 0;
  for (int run = 0; run < 50; ++run) {
    const std::vector<std::uint64_t> args{float_arg(1e6), float_arg(run)};
    executable->run(addresses, addresses, {}, args);
    total += run;
  }
  EXPECT_EQ(fetch(backend(), x, 4000),
            bytes_of(std::vector<float>(1000, static_cast<float>(total))));
}

// Temporaries, leaves whose buffers change, and memory that was released and allocated again.
TEST_F(OpenClBackendTest, BuffersAreBoundAnewWhenTheyMove) {
  plan::PlanSteps steps;
  steps.steps.emplace_back(kernel_step(
      add_program(0), {{{100}, {{Ref::Kind::Leaf, 0, 0}, {Ref::Kind::Temp, 0, 512}}, 0}}, "first"));
  steps.steps.emplace_back(
      kernel_step(add_program(0),
                  {{{100}, {{Ref::Kind::Temp, 0, 512}, {Ref::Kind::Output, 0, 0}}, 0}}, "second"));
  steps.arena_bytes = 1024;
  steps.arg_words = 1;
  const auto executable = backend().prepare(0, steps);
  const std::uint64_t arg = float_arg(0.5);
  for (int round = 0; round < 4; ++round) {
    Chunk chunk(backend(), 16384), arena(backend(), 4096);
    const std::vector<Address> leaf{
        chunk.put(bytes_of(std::vector<float>(100, static_cast<float>(round))))};
    const std::vector<Address> output{chunk.take(400)};
    executable->run(leaf, output, arena.take(1024), {&arg, 1});
    EXPECT_EQ(fetch(backend(), output[0], 400),
              bytes_of(std::vector<float>(100, static_cast<float>(round + 1))));
  }
}

TEST_F(OpenClBackendTest, NothingToDoLaunchesNothing) {
  const auto before = live_counters().launches.load();
  const Ref leaf{Ref::Kind::Leaf, 0, 0}, output{Ref::Kind::Output, 0, 0};
  plan::PlanSteps steps =
      one_step(kernel_step(add_program(0), {{{0}, {leaf, output}, 0}}, "empty"), 1);
  steps.steps.emplace_back(
      kernel_step(add_program(0, true), {{{0}, {leaf, output}, 0}}, "empty horizontal"));
  steps.steps.emplace_back(plan::MatmulStep{.m = 0,
                                            .n = 4,
                                            .k = 4,
                                            .lda = 4,
                                            .ldb = 4,
                                            .ldc = 4,
                                            .a = leaf,
                                            .b = leaf,
                                            .c = output,
                                            .label = "matmul"});
  const std::vector<Address> nothing(1);
  const std::uint64_t arg = 0;
  backend().prepare(0, steps)->run(nothing, nothing, {}, {&arg, 1});
  backend().synchronize(0);
  EXPECT_EQ(live_counters().launches.load(), before);
}

// `segments` additions in one horizontal step; with `apart`, each buffer is in its own chunk.
void check_horizontal(Backend& backend, std::int64_t segments, bool apart, std::uint64_t launches) {
  std::vector<std::unique_ptr<Chunk>> chunks;
  const auto chunk = [&]() -> Chunk& {
    if (apart || chunks.empty())
      chunks.push_back(std::make_unique<Chunk>(backend, apart ? 8192 : 1 << 20));
    return *chunks.back();
  };
  std::vector<Address> leaves, outputs;
  std::vector<plan::Binding> bindings;
  std::vector<std::uint64_t> args;
  for (std::int64_t n = 0; n < segments; ++n) {
    const std::int64_t length = n * 37 % 1000;
    const auto index = static_cast<std::uint32_t>(n);
    const std::vector<float> values(static_cast<std::size_t>(length) + 1, static_cast<float>(n));
    leaves.push_back(chunk().put(bytes_of(values)));
    outputs.push_back(chunk().take(values.size() * sizeof(float)));
    bindings.push_back(
        {{length}, {{Ref::Kind::Leaf, index, 0}, {Ref::Kind::Output, index, 0}}, index});
    args.push_back(float_arg(static_cast<double>(n) / 4));
  }
  const auto executable =
      backend.prepare(0, one_step(kernel_step(add_program(0.5, true), bindings, "horizontal"),
                                  static_cast<std::uint32_t>(segments)));
  for (int run = 0; run < 2; ++run) {
    const auto before = live_counters().launches.load();
    executable->run(leaves, outputs, {}, args);
    EXPECT_EQ(live_counters().launches.load() - before, launches);
    for (std::size_t n = 0; n < leaves.size(); ++n) {
      const auto length = static_cast<std::size_t>(bindings[n].ints[0]);
      const float value = static_cast<float>(n) * 1.25f + 0.5f;
      ASSERT_EQ(fetch(backend, outputs[n], length * sizeof(float)),
                bytes_of(std::vector<float>(length, value)))
          << "segment " << n;
    }
  }
}

TEST_F(OpenClBackendTest, FiftySegmentsRunInOneLaunch) {
  check_horizontal(backend(), 50, false, 1);
}

// 49 segments are not empty, and four at a time share the eight base arguments of a launch.
TEST_F(OpenClBackendTest, ManyMemoryObjectsSplitAHorizontalLaunch) {
  check_horizontal(backend(), 50, true, 13);
}

// A segment with more memory objects than there are base arguments still runs.
TEST_F(OpenClBackendTest, AWideSegmentRunsAlone) {
  ProgramBuilder b;
  const int i = b.axis(b.param());
  const auto here = ProgramBuilder::at({{i, ProgramBuilder::one()}});
  int sum = b.constant(DType::f32, 0);
  for (int n = 0; n < 9; ++n)
    sum = b.op(kernel::ScalarOp::add, sum, b.load(b.slot(DType::f32), here));
  b.store(b.slot(DType::f32), here, sum);
  std::vector<std::unique_ptr<Chunk>> chunks;
  std::vector<Address> leaves;
  plan::Binding binding{{300}, {}, 0};
  for (std::uint32_t n = 0; n < 10; ++n) {
    chunks.push_back(std::make_unique<Chunk>(backend(), 4096));
    leaves.push_back(chunks.back()->put(bytes_of(std::vector<float>(300, static_cast<float>(n)))));
    binding.buffers.push_back({Ref::Kind::Leaf, n, 0});
  }
  const auto executable = backend().prepare(
      0, one_step(kernel_step(b.finish(map_schedule(1, true)), {binding}, "wide"), 0));
  executable->run(leaves, {}, {}, {});
  EXPECT_EQ(fetch(backend(), leaves[9], 1200), bytes_of(std::vector<float>(300, 36.0f)));
}

}  // namespace
}  // namespace volta::testing
