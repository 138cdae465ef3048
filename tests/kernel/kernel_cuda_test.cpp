// Every sample, emitted as CUDA C++, compiled by NVRTC and run through the driver without a
// backend, gives the results of the reference. The test is skipped without a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/cuda/own_kernels.h"
#include "kernel/emit.h"
#include "kernel/kernel_samples.h"
#include "runtime/tune/alternative_samples.h"
#include "support/nvrtc_compile.h"

namespace volta::testing {
namespace {

// The few driver calls that a launch needs, opened at run time.
class Driver {
 public:
  using Pointer = unsigned long long;

  Driver() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    int (*init)(unsigned) = nullptr;
    int (*device_get)(int*, int) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*set_current)(void*) = nullptr;
    int (*attribute)(int*, int, int) = nullptr;
    find(init, "cuInit");
    find(device_get, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(set_current, "cuCtxSetCurrent");
    find(attribute, "cuDeviceGetAttribute");
    int device = 0;
    if (init(0) != 0 || device_get(&device, 0) != 0) return;
    void* context = nullptr;
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
    int major = 0, minor = 0;
    check(attribute(&major, 75, device), "cuDeviceGetAttribute");
    check(attribute(&minor, 76, device), "cuDeviceGetAttribute");
    architecture_ = "sm_" + std::to_string(major) + std::to_string(minor);
    find(load_, "cuModuleLoadData");
    find(unload_, "cuModuleUnload");
    find(function_, "cuModuleGetFunction");
    find(allocate_, "cuMemAlloc_v2");
    find(free_, "cuMemFree_v2");
    find(upload_, "cuMemcpyHtoD_v2");
    find(download_, "cuMemcpyDtoH_v2");
    find(launch_, "cuLaunchKernel");
    find(synchronize_, "cuCtxSynchronize");
  }

  bool present() const { return !architecture_.empty(); }
  const std::string& architecture() const { return architecture_; }

  void* load(const std::string& cubin) const {
    void* module = nullptr;
    check(load_(&module, cubin.data()), "cuModuleLoadData");
    return module;
  }
  void unload(void* module) const { check(unload_(module), "cuModuleUnload"); }
  void* function(void* module, const std::string& name) const {
    void* function = nullptr;
    check(function_(&function, module, name.c_str()), "cuModuleGetFunction");
    return function;
  }
  Pointer upload(const void* bytes, std::size_t size) const {
    Pointer memory = 0;
    check(allocate_(&memory, size), "cuMemAlloc");
    check(upload_(memory, bytes, size), "cuMemcpyHtoD");
    return memory;
  }
  void download(void* to, Pointer from, std::size_t size) const {
    check(download_(to, from, size), "cuMemcpyDtoH");
  }
  void free(Pointer memory) const { check(free_(memory), "cuMemFree"); }
  void launch(void* function, std::int64_t blocks, int threads,
              std::vector<void*> parameters) const {
    if (blocks == 0) return;
    check(launch_(function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1,
                  1, 0, nullptr, parameters.data(), nullptr),
          "cuLaunchKernel");
    check(synchronize_(), "cuCtxSynchronize");
  }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("cuda: no symbol ") + name);
  }
  static void check(int status, const char* call) {
    if (status != 0)
      throw std::runtime_error(std::string(call) + ": status " + std::to_string(status));
  }

  void* library_ = nullptr;
  std::string architecture_;
  int (*load_)(void**, const void*) = nullptr;
  int (*unload_)(void*) = nullptr;
  int (*function_)(void**, void*, const char*) = nullptr;
  int (*allocate_)(Pointer*, std::size_t) = nullptr;
  int (*free_)(Pointer) = nullptr;
  int (*upload_)(Pointer, const void*, std::size_t) = nullptr;
  int (*download_)(void*, Pointer, std::size_t) = nullptr;
  int (*launch_)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                 void**, void**) = nullptr;
  int (*synchronize_)() = nullptr;
};

void run_binding(const Driver& driver, void* function, const Sample& sample,
                 const SampleBinding& binding, std::vector<Bytes>& buffers,
                 Driver::Pointer record) {
  std::vector<Driver::Pointer> memory;
  for (const Bytes& bytes : buffers) memory.push_back(driver.upload(bytes.data(), bytes.size()));
  if (!sample.program.args.empty())
    memory.push_back(driver.upload(binding.args.data(), binding.args.size() * 8));
  std::vector<void*> parameters;
  for (Driver::Pointer& each : memory) parameters.push_back(&each);
  if (kernel::analyze(sample.program).has_bounded) parameters.push_back(&record);
  std::vector<std::int32_t> narrow(binding.ints.begin(), binding.ints.end());
  std::vector<std::int64_t> wide = binding.ints;
  if (!wide.empty()) {
    parameters.push_back(sample.program.schedule.index64 ? static_cast<void*>(wide.data())
                                                         : narrow.data());
  }
  driver.launch(function, kernel::block_count(sample.program, binding.ints),
                kernel::block_threads(sample.program), parameters);
  for (std::size_t n = 0; n < buffers.size(); ++n)
    driver.download(buffers[n].data(), memory[n], buffers[n].size());
  for (const Driver::Pointer each : memory) driver.free(each);
}

void run_segments(const Driver& driver, void* function, const Sample& sample,
                  std::vector<std::vector<Bytes>>& buffers, Driver::Pointer record) {
  std::vector<std::uint64_t> table, args;
  std::vector<std::vector<Driver::Pointer>> memory(buffers.size());
  std::int64_t blocks = 0;
  for (std::size_t s = 0; s < buffers.size(); ++s) {
    const SampleBinding& binding = sample.bindings[s];
    table.push_back(static_cast<std::uint64_t>(blocks));
    blocks += kernel::block_count(sample.program, binding.ints);
    for (const std::int64_t value : binding.ints) table.push_back(int_arg(value));
    for (const Bytes& bytes : buffers[s]) {
      memory[s].push_back(driver.upload(bytes.data(), bytes.size()));
      table.push_back(memory[s].back());
    }
    table.push_back(args.size());
    args.insert(args.end(), binding.args.begin(), binding.args.end());
  }
  Driver::Pointer table_memory = driver.upload(table.data(), table.size() * 8), args_memory = 0;
  int segments = static_cast<int>(buffers.size());
  std::vector<void*> parameters = {&table_memory, &segments};
  if (!args.empty()) {
    args_memory = driver.upload(args.data(), args.size() * 8);
    parameters.push_back(&args_memory);
  }
  if (kernel::analyze(sample.program).has_bounded) parameters.push_back(&record);
  driver.launch(function, blocks, kernel::block_threads(sample.program), parameters);
  for (std::size_t s = 0; s < buffers.size(); ++s) {
    for (std::size_t n = 0; n < buffers[s].size(); ++n) {
      driver.download(buffers[s][n].data(), memory[s][n], buffers[s][n].size());
      driver.free(memory[s][n]);
    }
  }
  driver.free(table_memory);
  if (args_memory != 0) driver.free(args_memory);
}

class KernelCuda : public ::testing::TestWithParam<Sample> {
 protected:
  void expect_as_reference(const Sample& sample) {
    static const Driver driver;
    static const Nvrtc nvrtc;
    if (!driver.present()) GTEST_SKIP() << "no CUDA device";
    if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
    const kernel::KernelSource source = kernel::emit(sample.program, kernel::Dialect::Cuda);
    void* module = driver.load(nvrtc.compile(source.text, driver.architecture()));
    void* function = driver.function(module, source.name);

    std::vector<std::vector<Bytes>> expected, actual;
    kernel::ErrorRecord expected_error, actual_error;
    for (const SampleBinding& binding : sample.bindings) {
      expected.push_back(make_buffers(sample, binding));
      actual.push_back(expected.back());
      run_reference(sample.program, binding.ints, pointers(expected.back()), binding.args.data(),
                    &expected_error);
    }
    const Driver::Pointer record = driver.upload(&actual_error, sizeof actual_error);
    if (sample.program.schedule.horizontal) {
      run_segments(driver, function, sample, actual, record);
    } else {
      for (std::size_t n = 0; n < actual.size(); ++n) {
        run_binding(driver, function, sample, sample.bindings[n], actual[n], record);
      }
    }
    driver.download(&actual_error, record, sizeof actual_error);
    driver.free(record);
    driver.unload(module);
    for (std::size_t n = 0; n < actual.size(); ++n) {
      EXPECT_EQ(compare(sample, sample.bindings[n], expected[n], actual[n]), "") << "binding " << n;
    }
    EXPECT_EQ(actual_error.claimed, expected_error.claimed);
    EXPECT_EQ(actual_error.site, expected_error.site);
    EXPECT_EQ(actual_error.high, expected_error.high);
  }
};

TEST_P(KernelCuda, RunsAsTheReference) { expect_as_reference(GetParam()); }

TEST_P(KernelCuda, RunsAsTheReferenceWithWideIndices) {
  Sample sample = GetParam();
  sample.program.schedule.index64 = true;
  expect_as_reference(sample);
}

INSTANTIATE_TEST_SUITE_P(Samples, KernelCuda, ::testing::ValuesIn(samples()),
                         [](const auto& info) { return info.param.name; });

using KernelCudaAlternatives = KernelCuda;

TEST_P(KernelCudaAlternatives, RunAsTheReference) {
  for (const Sample& sample : alternative_samples(GetParam())) {
    SCOPED_TRACE(kernel::to_text(sample.program.schedule));
    expect_as_reference(sample);
    if (IsSkipped()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, KernelCudaAlternatives,
                         ::testing::ValuesIn(alternative_subjects()),
                         [](const auto& info) { return info.param.name; });

// Copies of all sizes around a word and a block, between any addresses.
TEST(KernelCudaOwn, SlotCopies) {
  static const Driver driver;
  static const Nvrtc nvrtc;
  if (!driver.present()) GTEST_SKIP() << "no CUDA device";
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  using cuda::SlotCopyList;
  const kernel::KernelSource source = cuda::slot_copy_kernel();
  void* module = driver.load(nvrtc.compile(source.text, driver.architecture()));
  const std::size_t block = SlotCopyList::kBlockBytes;
  std::vector<unsigned char> from(3 << 20), expected(from.size(), 0xee), actual(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i % 251);
  const Driver::Pointer input = driver.upload(from.data(), from.size());
  const Driver::Pointer output = driver.upload(expected.data(), expected.size());
  SlotCopyList list{};
  std::size_t at = 0;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4}, std::size_t{15}, std::size_t{17},
                                 block - 1, block, block + 1, 3 * block + 20}) {
    for (const auto& [to, offset] : {std::pair<int, int>{0, 0}, {0, 4}, {4, 8}, {1, 0}, {3, 3}}) {
      const auto target = at + static_cast<std::size_t>(to),
                 begin = static_cast<std::size_t>(offset);
      list.add(output + target, input + begin, size);
      std::copy_n(from.begin() + offset, size, expected.begin() + static_cast<long>(target));
      at += (size + 64) / 16 * 16;
    }
  }
  ASSERT_LE(at, expected.size());
  driver.launch(driver.function(module, source.name), static_cast<std::int64_t>(list.blocks),
                static_cast<int>(SlotCopyList::kThreads), {&list});
  driver.download(actual.data(), output, actual.size());
  EXPECT_TRUE(actual == expected);
  driver.free(input);
  driver.free(output);
  driver.unload(module);
}

}  // namespace
}  // namespace volta::testing
