// The OpenCL backend through backend.h alone. The module is opened as the core opens it, and every
// sample program must give the results of the reference interpreter.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "core/build_stamp.h"
#include "core/counting.h"
#include "kernel/cache_folder.h"
#include "kernel/emit.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"
#include "support/paths.h"
#include "volta/error.h"

namespace volta::testing {
namespace {

using Ref = plan::BufferRef;

// Sets an environment variable for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, old_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string old_;
};

// $VOLTA_BACKEND_PATH, otherwise the build's folder.
std::filesystem::path module_path() {
  const char* file = "libvolta_opencl.so";
  const char* folder = std::getenv("VOLTA_BACKEND_PATH");
  if (folder && std::filesystem::exists(std::filesystem::path(folder) / file)) {
    return std::filesystem::path(folder) / file;
  }
  return std::filesystem::path(paths::library_dir()) / file;
}

CreateBackend entry_point() {
  static const CreateBackend create = [] {
    void* library = dlopen(module_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    return reinterpret_cast<CreateBackend>(dlsym(library, kCreateBackendSymbol));
  }();
  return create;
}

// Null, with the reason in *why, if the backend was not built or there is no OpenCL device.
std::unique_ptr<Backend> create_backend(const char** why) {
  if (!std::filesystem::exists(module_path())) {
    *why = "the OpenCL backend is not part of this build";
    return nullptr;
  }
  return std::unique_ptr<Backend>(entry_point()(kBuildStamp, why));
}

// A chunk of device memory divided into buffers, as in the pool.
class Chunk {
 public:
  Chunk(Backend& backend, std::size_t bytes)
      : backend_(backend), memory_(backend.allocate(0, bytes)), size_(bytes) {
    EXPECT_NE(memory_.base, nullptr);
  }
  ~Chunk() { backend_.release(0, memory_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  Address take(std::size_t bytes) {
    const Address address{memory_.base, memory_.offset + used_};
    used_ += (bytes + 255) / 256 * 256;
    EXPECT_LE(used_, size_);
    return address;
  }
  Address put(const Bytes& bytes) {
    const Address address = take(bytes.size());
    backend_.upload(0, address, bytes.data(), bytes.size());
    return address;
  }

 private:
  Backend& backend_;
  Address memory_;
  std::size_t size_;
  std::size_t used_ = 256;  // an offset that is not zero
};

Bytes fetch(Backend& backend, Address address, std::size_t bytes) {
  Bytes result(bytes);
  backend.download(0, result.data(), address, bytes);
  return result;
}

// y[i] = x[i] + constant + argument
kernel::Program add_program(double constant, bool horizontal = false) {
  ProgramBuilder b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto here = ProgramBuilder::at({{i, ProgramBuilder::one()}});
  const int sum = b.op(kernel::ScalarOp::add, b.load(x, here), b.constant(DType::f32, constant));
  b.store(y, here, b.op(kernel::ScalarOp::add, sum, b.arg(DType::f32)));
  return b.finish(map_schedule(1, horizontal));
}

plan::PlanSteps one_step(plan::Step step, std::uint32_t arg_words) {
  plan::PlanSteps steps;
  steps.steps.push_back(std::move(step));
  steps.arg_words = arg_words;
  return steps;
}

plan::KernelStep kernel_step(const kernel::Program& program, std::vector<plan::Binding> segments,
                             std::string label) {
  return {.program = std::make_shared<kernel::Program>(program),
          .segments = std::move(segments),
          .label = std::move(label)};
}

// The backend that the tests share, or null as above.
Backend* shared_backend(const char** why) {
  static const char* reason = "";
  // Never destroyed, as in the core: the driver may be unloaded first at exit.
  static Backend* const backend = [] {
    // Tests do not use the user's kernel cache.
    const auto folder = std::filesystem::temp_directory_path() / "volta-test-cache";
    setenv("VOLTA_CACHE_DIR", folder.c_str(), 0);
    return create_backend(&reason).release();
  }();
  *why = reason;
  return backend;
}

class OpenClBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* why = nullptr;
    backend_ = shared_backend(&why);
    if (!backend_) GTEST_SKIP() << why;
  }
  Backend& backend() { return *backend_; }

 private:
  Backend* backend_ = nullptr;
};

// Runs all bindings of a sample as one plan and compares each with the reference.
void check_sample(Backend& backend, const Sample& sample) {
  plan::PlanSteps steps;
  plan::KernelStep step = kernel_step(sample.program, {}, sample.name);
  std::vector<std::uint64_t> args;
  std::vector<std::vector<Bytes>> inputs;
  std::vector<std::vector<Ref>> refs;
  std::vector<Address> leaves, outputs;
  std::size_t total = 4096;
  for (const SampleBinding& binding : sample.bindings) {
    inputs.push_back(make_buffers(sample, binding));
    for (const Bytes& bytes : inputs.back()) total += bytes.size() + 256;
  }
  Chunk chunk(backend, total);
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    std::vector<Ref>& buffers = refs.emplace_back();
    for (std::size_t slot = 0; slot < sample.program.slots.size(); ++slot) {
      const bool leaf = sample.program.slots[slot].read;
      auto& list = leaf ? leaves : outputs;
      buffers.push_back(
          {leaf ? Ref::Kind::Leaf : Ref::Kind::Output, static_cast<std::uint32_t>(list.size()), 0});
      list.push_back(chunk.put(inputs[n][slot]));
    }
    const SampleBinding& binding = sample.bindings[n];
    step.segments.push_back({binding.ints, buffers, static_cast<std::uint32_t>(args.size())});
    args.insert(args.end(), binding.args.begin(), binding.args.end());
  }
  steps.arg_words = static_cast<std::uint32_t>(args.size());
  steps.steps.emplace_back(std::move(step));
  const auto executable = backend.prepare(0, steps);
  executable->run(leaves, outputs, {}, args);

  kernel::ErrorRecord expected_error;
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    const SampleBinding& binding = sample.bindings[n];
    std::vector<Bytes> actual;
    for (std::size_t slot = 0; slot < inputs[n].size(); ++slot) {
      const Ref ref = refs[n][slot];
      const Address address = ref.kind == Ref::Kind::Leaf ? leaves[ref.index] : outputs[ref.index];
      actual.push_back(fetch(backend, address, inputs[n][slot].size()));
    }
    run_reference(sample.program, binding.ints, pointers(inputs[n]), binding.args.data(),
                  &expected_error);
    EXPECT_EQ(compare(sample, binding, inputs[n], actual), "") << "binding " << n;
  }
  const auto error = executable->take_error();
  ASSERT_EQ(error.has_value(), sample.bad_index);
  if (error) {
    EXPECT_EQ(error->site, expected_error.site);
    EXPECT_EQ(error->high, expected_error.high);
    EXPECT_GE(error->index, expected_error.high);
    EXPECT_FALSE(executable->take_error().has_value()) << "taking an error clears it";
  }
}

class OpenClSampleTest : public OpenClBackendTest, public ::testing::WithParamInterface<Sample> {};

TEST_P(OpenClSampleTest, EqualsTheReference) { check_sample(backend(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Samples, OpenClSampleTest, ::testing::ValuesIn(samples()),
                         [](const auto& tested) { return tested.param.name; });

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

struct MatmulCase {
  DType dtype = DType::f32;
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool share_b = false;
  std::int64_t padding = 0;  // additional elements in each row
  double tolerance = 1e-4;
};

// Runs the product with values in [-1, 1] and compares every element with a product in double.
void check_matmul(Backend& backend, const MatmulCase& c) {
  SCOPED_TRACE(::testing::Message()
               << c.dtype << " " << c.m << "x" << c.k << "x" << c.n << " batch " << c.batch
               << (c.transpose_a ? " a^T" : "") << (c.transpose_b ? " b^T" : "")
               << (c.share_b ? " shared b" : "") << " padding " << c.padding);
  plan::MatmulStep step;
  step.dtype = c.dtype, step.transpose_a = c.transpose_a, step.transpose_b = c.transpose_b;
  step.m = c.m, step.n = c.n, step.k = c.k, step.batch = c.batch;
  step.lda = (c.transpose_a ? c.m : c.k) + c.padding;
  step.ldb = (c.transpose_b ? c.k : c.n) + c.padding;
  step.ldc = c.n + c.padding;
  step.stride_a = (c.transpose_a ? c.k : c.m) * step.lda;
  step.stride_b = c.share_b ? 0 : (c.transpose_b ? c.n : c.k) * step.ldb;
  step.stride_c = c.m * step.ldc;
  step.offset_a = c.padding, step.offset_b = 2 * c.padding;
  step.a = {Ref::Kind::Leaf, 0, 0}, step.b = {Ref::Kind::Leaf, 1, 0},
  step.c = {Ref::Kind::Output, 0, 0};
  step.label = "matmul";

  const auto fill = [&](std::int64_t elements, std::uint64_t seed) {
    Bytes bytes(static_cast<std::size_t>(elements) * size_of(c.dtype));
    for (std::int64_t e = 0; e < elements; ++e) {
      const std::uint32_t word = kernel::philox(seed, static_cast<std::uint64_t>(e))[0];
      write_element(bytes.data(), e, c.dtype, {.f = std::ldexp(word >> 8, -23) - 1, .i = word % 7});
    }
    return bytes;
  };
  const std::int64_t size_a = c.batch * step.stride_a + c.padding;
  const std::int64_t size_b =
      (c.share_b ? 1 : c.batch) * (c.transpose_b ? c.n : c.k) * step.ldb + 2 * c.padding;
  const std::int64_t size_c = c.batch * step.stride_c;
  const Bytes a = fill(size_a, 1), b = fill(size_b, 2), before = fill(size_c, 3);
  Chunk chunk(backend, a.size() + b.size() + before.size() + 4096);
  const std::vector<Address> leaves{chunk.put(a), chunk.put(b)}, outputs{chunk.put(before)};
  backend.prepare(0, one_step(step, 0))->run(leaves, outputs, {}, {});
  const Bytes result = fetch(backend, outputs[0], before.size());

  for (std::int64_t batch = 0; batch < c.batch; ++batch) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k) {
          const std::int64_t at =
              batch * step.stride_a + (c.transpose_a ? k * step.lda + i : i * step.lda + k);
          const std::int64_t bt =
              batch * step.stride_b + (c.transpose_b ? j * step.ldb + k : k * step.ldb + j);
          const Value va = read_element(a.data(), at + step.offset_a, c.dtype);
          const Value vb = read_element(b.data(), bt + step.offset_b, c.dtype);
          sum += is_floating(c.dtype) ? va.f * vb.f : static_cast<double>(va.i * vb.i);
        }
        const Value got =
            read_element(result.data(), batch * step.stride_c + i * step.ldc + j, c.dtype);
        ASSERT_NEAR(is_floating(c.dtype) ? got.f : static_cast<double>(got.i), sum, c.tolerance)
            << "at " << batch << ", " << i << ", " << j;
      }
      for (std::int64_t j = c.n; j < step.ldc; ++j) {
        const std::int64_t at = batch * step.stride_c + i * step.ldc + j;
        ASSERT_EQ(read_element(result.data(), at, c.dtype).f,
                  read_element(before.data(), at, c.dtype).f)
            << "written outside the matrix";
      }
    }
  }
}

TEST_F(OpenClBackendTest, SmallProductsAreKernels) {
  const auto calls = live_counters().library_calls.load(),
             launches = live_counters().launches.load();
  std::uint64_t products = 0;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const std::int64_t batch : {1, 3}) {
        check_matmul(backend(), {.transpose_a = transpose_a,
                                 .transpose_b = transpose_b,
                                 .m = 17,
                                 .n = 33,
                                 .k = 65,
                                 .batch = batch,
                                 .share_b = transpose_a && batch > 1,
                                 .padding = batch == 1 ? 0 : 5});
        ++products;
      }
    }
  }
  check_matmul(backend(), {.m = 3, .n = 5, .k = 1000});  // long rows are shared by several threads
  check_matmul(backend(), {.m = 4, .n = 4, .k = 0});
  check_matmul(backend(), {.dtype = DType::f64, .m = 9, .n = 8, .k = 70, .tolerance = 1e-12});
  check_matmul(backend(), {.dtype = DType::bf16, .m = 9, .n = 8, .k = 70, .tolerance = 0.1});
  check_matmul(backend(), {.dtype = DType::f16, .m = 9, .n = 8, .k = 70, .tolerance = 0.02});
  check_matmul(backend(), {.dtype = DType::i64, .m = 9, .n = 8, .k = 70, .tolerance = 0});
  EXPECT_EQ(live_counters().library_calls.load(), calls);
  EXPECT_EQ(live_counters().launches.load() - launches, products + 6);
}

TEST_F(OpenClBackendTest, LargeProductsAreOneOrTwoKernels) {
  const auto calls = live_counters().library_calls.load(),
             launches = live_counters().launches.load();
  check_matmul(backend(), {.m = 128, .n = 128, .k = 128});
  check_matmul(backend(), {.transpose_a = true, .m = 130, .n = 150, .k = 129, .padding = 3});
  check_matmul(backend(), {.transpose_b = true, .m = 300, .n = 257, .k = 140});
  check_matmul(backend(), {.m = 64, .n = 70, .k = 130, .batch = 4});
  check_matmul(backend(),
               {.transpose_b = true, .m = 64, .n = 70, .k = 130, .batch = 4, .share_b = true});
  check_matmul(backend(), {.m = 17, .n = 33, .k = 8000, .tolerance = 1e-3});  // GPUs: in chunks
  EXPECT_EQ(live_counters().library_calls.load(), calls);
  EXPECT_EQ(live_counters().launches.load() - launches, backend().device_is_gpu(0) ? 7u : 6u);
}

}  // namespace
}  // namespace volta::testing
