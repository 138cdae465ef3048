// The CUDA backend through backend.h alone. Without a device only refusals are tested, and the
// other tests are skipped with the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/backend_loader.h"
#include "backend/cuda/cuda_backend_testing.h"
#include "core/build_stamp.h"
#include "core/counting.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"
#include "platform/library.h"
#include "volta/error.h"

namespace volta::testing {
namespace {

// The module's entry point; null if the backend is not built.
CreateBackend entry_point() {
  for (const auto& folder : backend_folders()) {
    const auto file = folder / platform::library_file_name("volta_cuda");
    if (!std::filesystem::exists(file)) continue;
    void* library = platform::open_library(file.string(), nullptr);
    if (library == nullptr) continue;
    return platform::library_function<CreateBackend>(library, kCreateBackendSymbol);
  }
  return nullptr;
}

TEST(CudaLibrary, RefusesAnotherBuild) {
  const CreateBackend create = entry_point();
  if (create == nullptr) GTEST_SKIP() << loaded().why;
  const char* why = nullptr;
  EXPECT_EQ(create("0.0.0-other", &why), nullptr);
  ASSERT_NE(why, nullptr);
  EXPECT_NE(std::string(why).find("0.0.0-other"), std::string::npos) << why;
  EXPECT_NE(std::string(why).find(kBuildStamp), std::string::npos) << why;
}

TEST(CudaLibrary, SaysWhyThereIsNoDevice) {
  if (loaded().backend != nullptr) GTEST_SKIP() << "there is a device";
  if (entry_point() == nullptr) GTEST_SKIP() << loaded().why;
  const std::string& why = loaded().why;
  const bool names_cause =
      why.find("driver") != std::string::npos || why.find("NVRTC") != std::string::npos;
  EXPECT_TRUE(names_cause) << why;
}

// Runs a sample's bindings as one plan. Every slot is an output that is uploaded before each run.
void run_sample(Backend& backend, const Sample& sample, const std::vector<SampleBinding>& bindings,
                int runs) {
  Memory memory(backend);
  const auto program = std::make_shared<const kernel::Program>(sample.program);
  plan::KernelStep step{program, {}, sample.name};
  plan::PlanSteps steps;
  std::vector<std::uint64_t> args;
  std::vector<std::vector<Bytes>> initial, expected;
  std::vector<Address> outputs;
  kernel::ErrorRecord error;
  for (const SampleBinding& binding : bindings) {
    plan::Binding bound{binding.ints, {}, static_cast<std::uint32_t>(args.size())};
    args.insert(args.end(), binding.args.begin(), binding.args.end());
    initial.push_back(make_buffers(sample, binding));
    expected.push_back(initial.back());
    run_reference(sample.program, binding.ints, pointers(expected.back()), binding.args.data(),
                  &error);
    for (const Bytes& bytes : initial.back()) {
      bound.buffers.push_back(output(static_cast<std::uint32_t>(outputs.size())));
      outputs.push_back(memory.take(bytes.size()));
      steps.output_bytes.push_back(bytes.size());
    }
    step.segments.push_back(std::move(bound));
  }
  steps.steps = {step};
  steps.arg_words = static_cast<std::uint32_t>(args.size());
  const auto executable = backend.prepare(0, steps);
  for (int run = 0; run < runs; ++run) {
    std::size_t n = 0;
    for (const auto& buffers : initial) {
      for (const Bytes& bytes : buffers)
        backend.upload(0, outputs[n++], bytes.data(), bytes.size());
    }
    executable->run({}, outputs, {}, args);
    n = 0;
    for (std::size_t b = 0; b < bindings.size(); ++b) {
      std::vector<Bytes> actual;
      for (const Bytes& bytes : initial[b])
        actual.push_back(memory.get<std::byte>(outputs[n++], bytes.size()));
      EXPECT_EQ(compare(sample, bindings[b], expected[b], actual), "") << "run " << run;
    }
    const auto taken = executable->take_error();
    ASSERT_EQ(taken.has_value(), sample.bad_index);
    if (taken) {
      EXPECT_EQ(taken->site, error.site);
      EXPECT_EQ(taken->high, error.high);
      EXPECT_FALSE(executable->take_error().has_value());
    }
  }
}

TEST_F(CudaBackend, SamplesMatchTheReferenceEagerAndReplayed) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    if (sample.program.schedule.horizontal) {
      run_sample(backend(), sample, sample.bindings, 4);
      continue;
    }
    for (const SampleBinding& binding : sample.bindings)
      run_sample(backend(), sample, {binding}, 4);
  }
}

// y[i] = x[i] + argument, or in place x[i] += argument.
std::shared_ptr<const kernel::Program> add_program(bool in_place = false) {
  ProgramBuilder b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::f32), y = in_place ? x : b.slot(DType::f32);
  const auto here = ProgramBuilder::at({{i, ProgramBuilder::one()}});
  b.store(y, here, b.op(kernel::ScalarOp::add, b.load(x, here), b.arg(DType::f32)));
  return std::make_shared<const kernel::Program>(b.finish(map_schedule()));
}

plan::PlanSteps add_plan(std::int64_t n) {
  plan::PlanSteps steps;
  steps.steps = {plan::KernelStep{add_program(), {{{n}, {leaf(0), output(0)}, 0}}, "add"}};
  steps.leaf_bytes = steps.output_bytes = {static_cast<std::uint64_t>(n) * 4};
  steps.arg_words = 1;
  return steps;
}

std::vector<std::uint64_t> arg(double value) { return {float_arg(value)}; }

// Two additions with an intermediate output need two launches, so that a capture is worthwhile.
plan::PlanSteps two_adds_plan(std::int64_t n) {
  plan::PlanSteps steps;
  steps.steps = {plan::KernelStep{add_program(), {{{n}, {leaf(0), output(1)}, 0}}, "add"},
                 plan::KernelStep{add_program(), {{{n}, {output(1), output(0)}, 1}}, "add"}};
  steps.leaf_bytes = {static_cast<std::uint64_t>(n) * 4};
  steps.output_bytes = {static_cast<std::uint64_t>(n) * 4, static_cast<std::uint64_t>(n) * 4};
  steps.arg_words = 2;
  return steps;
}

std::vector<std::uint64_t> two_args(double value) { return {float_arg(value - 3), float_arg(3)}; }

TEST_F(CudaBackend, DevicesHaveNamesAndMemory) {
  ASSERT_GE(backend().device_count(), 1);
  EXPECT_FALSE(backend().device_name(0).empty());
  EXPECT_GT(backend().device_memory(0), 0u);
  EXPECT_TRUE(backend().device_is_gpu(0));
  for (int n = 0; n < kDTypeCount; ++n) EXPECT_TRUE(backend().supports(0, static_cast<DType>(n)));
}

TEST_F(CudaBackend, NoMoreMemoryIsAnEmptyAddress) {
  EXPECT_EQ(backend().allocate(0, std::size_t{1} << 42).base, nullptr);
  const Address address = memory().take(100);  // the device still works
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address.base) % 256, 0u);
}

TEST_F(CudaBackend, CopiesOfAllSizesKeepEveryByte) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{4097}, std::size_t{1} << 20, (std::size_t{4} << 20) + 3,
        std::size_t{9} << 20, (std::size_t{50} << 20) + 12345}) {
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::uint8_t>(i * 2654435761u >> 24);
    std::vector<std::uint8_t> source = bytes;
    const Address first = memory().take(size), second = memory().take(size);
    backend().upload(0, first, source.data(), size);
    std::fill(source.begin(), source.end(), std::uint8_t{0});  // upload has already read it
    backend().copy(0, second, first, size);
    EXPECT_TRUE(memory().get<std::uint8_t>(second, size) == bytes) << size;
  }
}

TEST_F(CudaBackend, ManySmallUploadsInARow) {
  constexpr std::size_t kCount = 20000, kFloats = 512;
  const Address all = memory().take(kCount * kFloats * 4);
  for (std::size_t n = 0; n < kCount; ++n) {
    const std::vector<float> values(kFloats, static_cast<float>(n));
    backend().upload(0, {all.base, all.offset + n * kFloats * 4}, values.data(), kFloats * 4);
  }
  const auto values = memory().get<float>(all, kCount * kFloats);
  for (std::size_t n = 0; n < kCount; ++n) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(n * kFloats);
    const float expected = static_cast<float>(n);
    ASSERT_TRUE(std::all_of(first, first + kFloats, [=](float v) { return v == expected; })) << n;
  }
}

TEST_F(CudaBackend, ThirdRunIsOneGraph) {
  const Address x = memory().put(std::vector<float>(100, 1)), y = memory().take(400),
                between = memory().take(400);
  const auto executable = backend().prepare(0, two_adds_plan(100));
  LiveCounters& counters = live_counters();
  const auto launches = counters.launches.load(), graphs = counters.graph_launches.load();
  for (int n = 0; n < 10; ++n) {
    executable->run(std::array{x}, std::array{y, between}, {}, two_args(n));
    EXPECT_EQ(memory().get<float>(y, 100), std::vector<float>(100, static_cast<float>(1 + n)));
  }
  EXPECT_EQ(counters.launches.load() - launches, 20u);
  EXPECT_EQ(counters.graph_launches.load() - graphs, 8u);
}

// A graph of one launch costs the host less than the launch itself. If the kernel takes longer than
// either, or inputs would have to be copied, a graph gains nothing.
TEST_F(CudaBackend, OneLaunchIsReplayedIfItIsShort) {
  constexpr std::size_t kShort = 100, kLong = std::size_t{1} << 20;
  for (const std::size_t size : {kShort, kLong}) {
    const Address x = memory().put(std::vector<float>(size, 1)), y = memory().take(size * 4);
    const auto executable = backend().prepare(0, add_plan(static_cast<std::int64_t>(size)));
    LiveCounters& counters = live_counters();
    const auto launches = counters.launches.load(), graphs = counters.graph_launches.load();
    for (int n = 0; n < 30; ++n) {
      executable->run(std::array{x}, std::array{y}, {}, arg(n));
      EXPECT_EQ(memory().get<float>(y, size), std::vector<float>(size, static_cast<float>(1 + n)));
    }
    EXPECT_EQ(counters.launches.load() - launches, 30u);
    EXPECT_EQ(counters.graph_launches.load() - graphs, size == kShort ? 28u : 0u);
  }
}

TEST_F(CudaBackend, OneLaunchOfMovingInputsIsNotCopiedAround) {
  const auto executable = backend().prepare(0, add_plan(100));
  LiveCounters& counters = live_counters();
  const auto launches = counters.launches.load();
  for (int n = 0; n < 30; ++n) {
    const Address x = memory().put(std::vector<float>(100, static_cast<float>(n)));
    const Address y = memory().take(400);
    executable->run(std::array{x}, std::array{y}, {}, arg(1));
    EXPECT_EQ(memory().get<float>(y, 100), std::vector<float>(100, static_cast<float>(1 + n)));
  }
  EXPECT_EQ(counters.launches.load() - launches, 30u);
}

TEST_F(CudaBackend, PinnedMemoryIsReadByTheDevice) {
  for (const std::size_t size : {std::size_t{1000}, (std::size_t{9} << 20) + 7}) {
    auto* bytes = static_cast<std::uint8_t*>(backend().allocate_pinned(0, size));
    ASSERT_NE(bytes, nullptr);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = static_cast<std::uint8_t>(i * 2654435761u >> 24);
    const std::vector<std::uint8_t> expected(bytes, bytes + size);
    const Address there = memory().take(size);
    backend().upload(0, there, bytes, size);
    std::fill(bytes, bytes + size, std::uint8_t{0});  // upload has already read it
    EXPECT_TRUE(memory().get<std::uint8_t>(there, size) == expected) << size;
    backend().release_pinned(0, bytes);
  }
}

TEST_F(CudaBackend, ArgumentsChangeFromRunToRunWithoutWaiting) {
  constexpr std::size_t kRuns = 200, kFloats = std::size_t{1} << 16;
  const Address x = memory().put(std::vector<float>(kFloats, 0));
  const auto executable = backend().prepare(0, add_plan(kFloats));
  const auto value = [](std::size_t run) { return std::floor(static_cast<float>(run) * 0.5f); };
  std::vector<Address> results(kRuns);
  for (Address& result : results) result = memory().take(kFloats * 4);
  for (std::size_t n = 0; n < kRuns; ++n) {
    executable->run(std::array{x}, std::array{results[n]}, {}, arg(value(n)));
  }
  for (std::size_t n = 0; n < kRuns; ++n) {
    ASSERT_EQ(memory().get<float>(results[n], kFloats), std::vector<float>(kFloats, value(n))) << n;
  }
}

TEST_F(CudaBackend, AlternatingStateReplays) {
  std::array<Address, 2> state{memory().put(std::vector<float>(64, 0)), memory().take(256)};
  const Address between = memory().take(256);
  const auto executable = backend().prepare(0, two_adds_plan(64));
  const auto graphs = live_counters().graph_launches.load();
  for (int n = 0; n < 21; ++n) {
    executable->run(std::array{state[0]}, std::array{state[1], between}, {}, two_args(1));
    std::swap(state[0], state[1]);
  }
  EXPECT_EQ(memory().get<float>(state[0], 64), std::vector<float>(64, 21));
  EXPECT_EQ(live_counters().graph_launches.load() - graphs, 19u);
}

TEST_F(CudaBackend, InputsAndOutputsThatAlwaysMoveReplayThroughSlots) {
  const auto executable = backend().prepare(0, two_adds_plan(64));
  const Address between = memory().take(256);
  std::vector<Address> inputs(30), outputs(30);
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    inputs[n] = memory().put(std::vector<float>(64, static_cast<float>(10 * n)));
    outputs[n] = memory().take(256);
  }
  const auto graphs = live_counters().graph_launches.load();
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    executable->run(std::array{inputs[n]}, std::array{outputs[n], between}, {},
                    two_args(static_cast<double>(n)));
  }
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    EXPECT_EQ(memory().get<float>(outputs[n], 64),
              std::vector<float>(64, static_cast<float>(11 * n)))
        << n;
    EXPECT_EQ(memory().get<float>(inputs[n], 64),
              std::vector<float>(64, static_cast<float>(10 * n)))
        << n;
  }
  EXPECT_EQ(live_counters().graph_launches.load() - graphs, 28u);
}

TEST_F(CudaBackend, DonatedBuffersThatAlwaysMoveAreUpdatedInPlace) {
  plan::PlanSteps steps;
  // The leaf is first read through its own binding, then updated in place through the output's.
  steps.steps = {plan::KernelStep{add_program(), {{{64}, {leaf(0), output(1)}, 1}}, "read"},
                 plan::KernelStep{add_program(true), {{{64}, {output(0)}, 0}}, "update"}};
  steps.leaf_bytes = {256};
  steps.output_bytes = {256, 256};
  steps.arg_words = 2;
  const auto executable = backend().prepare(0, steps);
  const std::vector<std::uint64_t> args{float_arg(5), float_arg(100)};
  const Address seen = memory().take(256);
  for (int n = 0; n < 20; ++n) {
    const Address state = memory().put(std::vector<float>(64, static_cast<float>(n)));
    for (int times = 1; times <= 2; ++times) {
      executable->run(std::array{state}, std::array{state, seen}, {}, args);
      const float before = static_cast<float>(n + 5 * (times - 1));
      EXPECT_EQ(memory().get<float>(seen, 64), std::vector<float>(64, before + 100)) << n;
      EXPECT_EQ(memory().get<float>(state, 64), std::vector<float>(64, before + 5)) << n;
    }
  }
}

TEST_F(CudaBackend, HorizontalTablesFollowTheAddresses) {
  ProgramBuilder b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto here = ProgramBuilder::at({{i, ProgramBuilder::one()}});
  b.store(y, here, b.op(kernel::ScalarOp::add, b.load(x, here), b.arg(DType::f32)));
  const auto program = std::make_shared<const kernel::Program>(b.finish(map_schedule(1, true)));
  plan::PlanSteps steps;
  steps.steps = {plan::KernelStep{program,
                                  {{{300}, {leaf(0), temp(256)}, 0},
                                   {{0}, {leaf(0), temp(0)}, 0},
                                   {{7}, {leaf(1), output(1)}, 1}},
                                  "a"},
                 plan::KernelStep{program, {{{300}, {temp(256), output(0)}, 1}}, "b"}};
  steps.leaf_bytes = {1200, 28};
  steps.output_bytes = {1200, 28};
  steps.arena_bytes = 2048;
  steps.arg_words = 2;
  const auto executable = backend().prepare(0, steps);
  const std::vector<std::uint64_t> args{float_arg(1), float_arg(10)};
  for (int n = 0; n < 12; ++n) {
    const float base = static_cast<float>(n);
    const std::array leaves{memory().put(std::vector<float>(300, base)),
                            memory().put(std::vector<float>(7, base))};
    const std::array outputs{memory().take(1200), memory().take(28)};
    const Address arena = memory().take(2048);
    executable->run(leaves, outputs, arena, args);
    EXPECT_EQ(memory().get<float>(outputs[0], 300), std::vector<float>(300, base + 11)) << n;
    EXPECT_EQ(memory().get<float>(outputs[1], 7), std::vector<float>(7, base + 10)) << n;
  }
}

TEST_F(CudaBackend, ScalarsReadBackAreNeverStale) {
  const auto executable = backend().prepare(0, add_plan(1));
  const auto other = backend().prepare(0, add_plan(1));
  const Address x = memory().put(std::vector<float>{1}), y = memory().take(4),
                z = memory().take(64);
  const auto read = [&](Address address) { return memory().get<float>(address, 1)[0]; };
  for (int n = 0; n < 60; ++n) {
    const float value = static_cast<float>(1 + n);
    executable->run(std::array{x}, std::array{y}, {}, arg(n));
    EXPECT_EQ(read(y), value) << n;
    EXPECT_EQ(read(y), value) << n;  // twice in a row
    switch (n % 5) {
      case 0: {
        const std::vector<float> replaced{-5};
        backend().upload(0, y, replaced.data(), 4);
        EXPECT_EQ(read(y), -5) << n;
        break;
      }
      case 1:
        backend().copy(0, y, x, 4);
        EXPECT_EQ(read(y), 1) << n;
        break;
      case 2:
        other->run(std::array{x}, std::array{y}, {}, arg(1000 + n));
        EXPECT_EQ(read(y), static_cast<float>(1001 + n)) << n;
        break;
      case 3:  // a copy that contains the scalar
        executable->run(std::array{x}, std::array{Address{z.base, z.offset + 32}}, {}, arg(n));
        EXPECT_EQ(read({z.base, z.offset + 32}), value) << n;
        backend().upload(0, z, std::vector<float>(16, 7).data(), 64);
        EXPECT_EQ(read({z.base, z.offset + 32}), 7) << n;
        break;
      default:
        break;
    }
  }
}

TEST_F(CudaBackend, ScalarsOfManyRunsInFlightAreTheirOwn) {
  const auto executable = backend().prepare(0, add_plan(1));
  const Address x = memory().put(std::vector<float>{0});
  std::vector<Address> losses;
  for (int n = 0; n < 300; ++n) {
    losses.push_back(memory().take(4));
    executable->run(std::array{x}, std::array{losses.back()}, {}, arg(n));
    if (n % 3 != 0) continue;
    EXPECT_EQ(memory().get<float>(losses.back(), 1)[0], static_cast<float>(n));
  }
  for (std::size_t n = 0; n < losses.size(); ++n) {
    EXPECT_EQ(memory().get<float>(losses[n], 1)[0], static_cast<float>(n));
  }
}

TEST_F(CudaBackend, ThreadsRunPlansOfTheirOwn) {
  const auto work = [](int seed) {
    Memory memory(backend());
    const auto executable = backend().prepare(0, add_plan(100 + seed));
    const std::size_t count = 100 + static_cast<std::size_t>(seed);
    const Address x = memory.put(std::vector<float>(count, static_cast<float>(seed)));
    const Address y = memory.take(count * 4);
    for (int n = 0; n < 50; ++n) {
      executable->run(std::array{x}, std::array{y}, {}, arg(n));
      EXPECT_EQ(memory.get<float>(y, count),
                std::vector<float>(count, static_cast<float>(seed + n)));
    }
  };
  std::vector<std::jthread> threads;
  for (int seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
}

// A fault destroys the process's context, so it is caused in a separate process.
TEST_F(CudaBackend, AfterAFaultEveryCallSaysThatTheDeviceIsLost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [] {
    const auto says_lost = [](const auto& call) {
      try {
        call();
      } catch (const BackendError& error) {
        return std::string(error.what()).starts_with("cuda:0 is lost: ");
      }
      return false;
    };
    const Address memory = backend().allocate(0, 256);
    const auto executable = backend().prepare(0, add_plan(64));
    const Address nowhere{std::bit_cast<void*>(std::uintptr_t{256}), 0};
    const auto before = backend().record_event(0, Stream::Compute);
    const bool noticed = says_lost([&] {
      executable->run(std::array{nowhere}, std::array{memory}, {}, arg(1));
      backend().synchronize(0);
    });
    float value = 0;
    const bool keeps_saying =
        says_lost([&] { backend().synchronize(0); }) &&
        says_lost([&] { backend().allocate(0, 256); }) &&
        says_lost([&] { backend().upload(0, memory, &value, 4); }) &&
        says_lost([&] { backend().download(0, &value, memory, 4); }) &&
        says_lost([&] { backend().prepare(0, add_plan(64)); }) &&
        says_lost([&] { executable->run(std::array{memory}, std::array{memory}, {}, arg(1)); }) &&
        says_lost([&] { backend().upload_in_copy_stream(0, memory, &value, 4); }) &&
        says_lost([&] { backend().begin_download(0, &value, memory, 4); }) &&
        says_lost([&] { backend().record_event(0, Stream::Upload); }) &&
        // A thread that waits for an earlier event gets the error and does not wait forever.
        says_lost([&] { before->wait(); }) && before->has_passed();
    std::_Exit(noticed && keeps_saying ? 0 : 1);
  };
  EXPECT_EXIT(fault(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace volta::testing
