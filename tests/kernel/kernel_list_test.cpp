// Lists the kernels that a run passes to the devices' compilers, whether compiled or found in the
// disk cache. Their number is printed at the end. If VOLTA_TEST_KERNELS names a file, it gets a
// line for each kernel: backend, hash of the source, and the first test that needed it.
// kernel_budget.sh combines several runs.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/hash.h"
#include "kernel/observer.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::testing {
namespace {

class KernelList : public ::testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const ::testing::UnitTest&) override { observe(); }

  void OnTestStart(const ::testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }

  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    kernel::set_kernel_observer({});
    std::map<std::string, std::size_t> counts;
    for (const auto& [kernel, test] : tests_) ++counts[kernel.first];
    for (const auto& [backend, count] : counts)
      std::printf("distinct kernels for %s: %zu\n", backend.c_str(), count);
    const char* path = std::getenv("VOLTA_TEST_KERNELS");
    if (path == nullptr) return;
    std::ofstream file(path);
    for (const auto& [kernel, test] : tests_)
      file << kernel.first << ' ' << kernel.second << ' ' << test << '\n';
    if (!file.flush()) std::fprintf(stderr, "cannot write %s\n", path);
  }

  // Works also after a test that used the observer itself.
  void observe() {
    kernel::set_kernel_observer([this](const std::string& backend, const std::string& source) {
      tests_.emplace(std::pair(backend, kernel::hash_bytes(source)), test_);
    });
  }

 private:
  std::string test_;
  std::map<std::pair<std::string, std::uint64_t>, std::string> tests_;
};

// GoogleTest owns this object.
KernelList* const kernel_list = [] {
  auto* listener = new KernelList;
  ::testing::UnitTest::GetInstance()->listeners().Append(listener);
  return listener;
}();

TEST(Kernels, AnObserverSeesWhatCompilersGet) {
  const TensorOptions here{.device = test_device()};
  const Tensor a = rand({11, 6}, here).eval(), b = rand({40, 3}, here).eval();
  std::vector<std::string> sources;
  kernel::set_kernel_observer([&](const std::string& backend, const std::string& source) {
    EXPECT_EQ(to_string(test_device()).substr(0, backend.size()), backend);
    sources.push_back(source);
  });
  (a * 3.25 - 0.125 * a).eval();
  (b * 4.5 - 7.25 * b).eval();  // already known
  kernel_list->observe();
  // The CPU has no compiler.
  ASSERT_EQ(sources.size(), test_device().is_cpu() ? 0u : 1u);
}

}  // namespace
}  // namespace volta::testing
