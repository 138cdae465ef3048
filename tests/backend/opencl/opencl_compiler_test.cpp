// The compiler of the OpenCL backend and its cache on the disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/opencl/opencl_backend_testing.h"
#include "core/counting.h"
#include "kernel/cache_folder.h"
#include "kernel/emit.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"
#include "volta/error.h"

namespace volta::testing {
namespace {

// A constant that was never used before, so that no cache has the kernel.
double fresh_constant() {
  const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
  return static_cast<double>(ticks % 1000003) + 0.25;
}

TEST_F(OpenClBackendTest, ASecondBackendLoadsFromTheDiskCache) {
  const plan::PlanSteps steps = one_step(
      kernel_step(add_program(fresh_constant()),
                  {{{10}, {{Ref::Kind::Leaf, 0, 0}, {Ref::Kind::Output, 0, 0}}, 0}}, "cached"),
      1);
  const auto compiled = [] { return live_counters().compilations.load(); };
  const auto loaded = [] { return live_counters().kernels_loaded.load(); };
  const auto compiled_before = compiled(), loaded_before = loaded();
  const auto first = backend().prepare(0, steps), again = backend().prepare(0, steps);
  EXPECT_EQ(compiled() - compiled_before, 1u);
  EXPECT_EQ(loaded() - loaded_before, 0u);

  const char* why = nullptr;
  const auto other = create_backend(&why);
  ASSERT_NE(other, nullptr) << why;
  const auto executable = other->prepare(0, steps);
  EXPECT_EQ(compiled() - compiled_before, 1u);
  EXPECT_EQ(loaded() - loaded_before, 1u);

  Chunk chunk(*other, 4096);
  const std::vector<Address> x{chunk.put(bytes_of(std::vector<float>(10, 1.0f)))};
  const std::uint64_t arg = float_arg(0);
  const auto program = std::get<plan::KernelStep>(steps.steps[0]).program;
  executable->run(x, x, {}, {&arg, 1});
  std::vector<Bytes> expected{bytes_of(std::vector<float>(10, 1.0f)), Bytes(40)};
  run_reference(*program, {10}, pointers(expected), &arg, nullptr);
  EXPECT_EQ(fetch(*other, x[0], 40), expected[1]);
}

// The key of a recently written cache entry whose content mentions a text.
std::string entry_with(const std::filesystem::path& folder, const std::string& text,
                       std::filesystem::file_time_type since) {
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::error_code gone;
    if (file.last_write_time(gone) < since || gone) continue;
    std::string binary;
    const std::string key = file.path().stem().string();
    if (kernel::CacheFolder(folder).load(key, binary) && binary.find(text) != std::string::npos)
      return key;
  }
  return {};
}

TEST_F(OpenClBackendTest, ACachedBinaryWithoutTheKernelIsCompiledAnew) {
  const std::filesystem::path folder = std::getenv("VOLTA_CACHE_DIR");
  const auto start = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(1);
  const kernel::Program one = add_program(fresh_constant()), two = add_program(fresh_constant());
  const auto steps_of = [](const kernel::Program& program) {
    return one_step(
        kernel_step(program, {{{10}, {{Ref::Kind::Leaf, 0, 0}, {Ref::Kind::Output, 0, 0}}, 0}},
                    "cached"),
        1);
  };
  backend().prepare(0, steps_of(one));
  backend().prepare(0, steps_of(two));
  const auto name = [](const kernel::Program& program) {
    return kernel::emit(program, kernel::Dialect::OpenCL).name;
  };
  ASSERT_NE(name(one), name(two));
  const std::string key = entry_with(folder, name(one), start),
                    other_key = entry_with(folder, name(two), start);
  if (key.empty() || other_key.empty()) GTEST_SKIP() << "this driver's binaries name no kernels";
  std::string binary;
  ASSERT_TRUE(kernel::CacheFolder(folder).load(other_key, binary));
  kernel::CacheFolder(folder).store(key, binary);

  const auto compiled = [] { return live_counters().compilations.load(); };
  const auto before = compiled();
  const char* why = nullptr;
  const auto second = create_backend(&why), third = create_backend(&why);
  ASSERT_NE(third, nullptr) << why;
  EXPECT_NO_THROW(second->prepare(0, steps_of(one)));
  EXPECT_EQ(compiled() - before, 1u);
  EXPECT_NO_THROW(third->prepare(0, steps_of(one)));
  EXPECT_EQ(compiled() - before, 1u) << "the entry was not replaced";
}

TEST_F(OpenClBackendTest, ACompilerFailureGivesTheKernelAndTheLog) {
  const ScopedVariable options("VOLTA_OPENCL_OPTIONS", "-D__kernel=no_such_keyword");
  const char* why = nullptr;
  const auto broken = create_backend(&why);
  ASSERT_NE(broken, nullptr) << why;
  try {
    broken->prepare(
        0, one_step(kernel_step(add_program(fresh_constant()),
                                {{{10}, {{Ref::Kind::Leaf, 0, 0}, {Ref::Kind::Output, 0, 0}}, 0}},
                                "tanh+add"),
                    1));
    FAIL() << "the compiler accepted a broken kernel";
  } catch (const BackendError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("tanh+add"), std::string::npos) << message;
    EXPECT_NE(message.find("no_such_keyword"), std::string::npos) << message;
    EXPECT_LT(std::count(message.begin(), message.end(), '\n'), 30) << message;
  }
}

}  // namespace
}  // namespace volta::testing
