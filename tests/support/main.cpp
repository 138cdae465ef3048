// The test program: GoogleTest's main with --device, a temporary folder of its own, and a list of
// the failed tests at the end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/error.h"

namespace {
std::string device_name = "cpu";

// Brief output prints a failure where it happens, which a long log hides. This repeats the first
// message of each failed test at the end.
class FailureSummary : public testing::EmptyTestEventListener {
  // GoogleTest holds its lock while it reports a part; asking it for the current test then would
  // deadlock.
  void OnTestStart(const testing::TestInfo& info) override {
    name_ = std::string(info.test_suite_name()) + "." + info.name();
  }
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    if (!failures_.empty() && failures_.back().starts_with(name_ + ":")) return;
    failures_.push_back(name_ + ": " + std::string(result.message()).substr(0, 600));
  }
  void OnTestEnd(const testing::TestInfo&) override { name_ = kNoTest; }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    for (const std::string& failure : failures_) std::printf("FAILED %s\n", failure.c_str());
  }

  static constexpr const char* kNoTest = "(no test)";
  std::string name_ = kNoTest;
  std::vector<std::string> failures_;
};

// The folder that testing::TempDir() names while it exists. Several test programs run at the same
// time, and tests give their files fixed names. A process that a test starts makes its folder in
// its parent's, where it is removed even if the process is killed.
class TemporaryFolder : public testing::Environment {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "volta_tests_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::exit(2);
    }
    path_ = name;
    setenv("TEST_TMPDIR", path_.c_str(), 1);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};
}  // namespace

// Parsed when a test first needs it, so a test that needs no device loads no driver.
volta::Device test_device() {
  static const volta::Device device = [] {
    try {
      return volta::Device::parse(device_name);
    } catch (const volta::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::exit(2);
    }
  }();
  return device;
}

int main(int argc, char** argv) {
  // Tests count kernels, so schedules are timed only in tests that request it.
  setenv("VOLTA_TUNE", "0", 0);
  testing::InitGoogleTest(&argc, argv);
  if (const char* name = std::getenv("VOLTA_TEST_DEVICE")) device_name = name;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--device=", 9) == 0) device_name = argv[i] + 9;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new FailureSummary);  // GoogleTest frees it
  testing::AddGlobalTestEnvironment(new TemporaryFolder);                    // GoogleTest frees it
  std::printf("device: %s\n", device_name.c_str());
  return RUN_ALL_TESTS();
}
