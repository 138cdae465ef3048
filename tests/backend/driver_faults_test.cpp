// Failing drivers: a library in front of the driver (tests/shims) lets one of the calls of a
// training step return an error.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/registry.h"
#include "runtime/fault_training.h"
#include "shims/shim.h"
#include "support/child.h"
#include "support/paths.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using testing_faults::forget_plans;
using testing_faults::Outcome;
using testing_faults::Training;

constexpr int kSteps = 5;

// A driver, with its statuses for a temporary error and for the loss of the device.
struct DriverKind {
  DeviceType type;
  const char* shim;      // the library in front of the driver
  const char* variable;  // the variable that names it
  int passing;           // status of failing calls that enqueue
  int passing_wait;      // status of failing calls that wait
  const char* launch;    // the function that starts a kernel
  const char* wait;      // the function that waits
  int fault;
  const char* fault_text;
  const char* wait_text;
};
constexpr DriverKind kOpenCl = {DeviceType::opencl,
                                "libvolta_opencl_shim.so",
                                "LD_PRELOAD",
                                -5,  // CL_OUT_OF_RESOURCES
                                -6,  // CL_OUT_OF_HOST_MEMORY
                                "clEnqueueNDRangeKernel",
                                "clFinish",
                                -2,  // CL_DEVICE_NOT_AVAILABLE
                                "clEnqueueNDRangeKernel failed: CL_DEVICE_NOT_AVAILABLE (-2)",
                                "clFinish failed: CL_DEVICE_NOT_AVAILABLE (-2)"};
constexpr DriverKind kCuda = {DeviceType::cuda,
                              "libvolta_cuda_shim.so",
                              "VOLTA_CUDA_DRIVER",
                              701,  // CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                              701,
                              "cuLaunchKernel",
                              "cuStreamSynchronize",
                              719,  // CUDA_ERROR_LAUNCH_FAILED
                              "CUDA_ERROR_LAUNCH_FAILED",
                              "CUDA_ERROR_LAUNCH_FAILED"};

class DriverFaults : public testing::TestWithParam<DriverKind> {
 protected:
  static std::string shim_path() { return paths::library_dir() + "/shims/" + GetParam().shim; }

  // Runs in a process with the shim, on the driver's first device; skipped if there is none.
  template <class Body>
  void with_shim(Body body) {
    if (!testing_child::is_child()) {
      if (!test_device().is_cpu() && test_device().type() != GetParam().type)
        GTEST_SKIP() << "another device is tested";
      if (device_count(GetParam().type) == 0) GTEST_SKIP() << why_unusable(GetParam().type, 0);
    }
    testing_child::Environment environment = {
        {GetParam().variable, shim_path()},
        {"VOLTA_TUNE", "off"},
        {"VOLTA_TEST_DEVICE", to_string(DeviceAccess::make(GetParam().type, 0))}};
    // A sanitizer's runtime must be the first library unless this is set.
    const char* options = std::getenv("ASAN_OPTIONS");
    environment["ASAN_OPTIONS"] =
        std::string(options != nullptr ? options : "") + ":verify_asan_link_order=0";
    testing_child::in_child(environment, [&] {
      shim_ = dlopen(shim_path().c_str(), RTLD_NOW | RTLD_LOCAL);
      ASSERT_NE(shim_, nullptr) << dlerror();
      body();
    });
  }

  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(shim_, name));
  }
  void fail(const char* name, long call, int status, int waiting_status) const {
    function<decltype(&volta_shim_fail)>("volta_shim_fail")(name, call, status, waiting_status);
  }
  void fail_none() const { fail("", 0, 0, 0); }
  long calls() const { return function<decltype(&volta_shim_calls)>("volta_shim_calls")(); }
  std::string failed() const {
    return function<decltype(&volta_shim_failed)>("volta_shim_failed")();
  }

  // Every `stride`-th call of a step to `name` (or to any function) fails once with a temporary
  // error.
  void fail_calls(const char* name, int failing_step, bool new_plans, long stride) {
    const auto nothing = [] {};
    const auto run = [&](const std::function<void()>& arm, const std::function<void()>& disarm) {
      if (new_plans) forget_plans();
      return testing_faults::train(kSteps, failing_step, arm, disarm);
    };
    run(nothing, nothing);
    const Outcome expected = run(nothing, nothing);
    long count = 0;
    run([&] { fail(name, 0, 0, 0); }, [&] { count = calls(), fail_none(); });
    ASSERT_GT(count, 0);
    std::set<std::string> functions;
    int lost = 0, errors = 0, missed = 0;
    for (long call = 1; call <= count; call += stride) {
      std::string what;
      const Outcome outcome =
          run([&] { fail(name, call, GetParam().passing, GetParam().passing_wait); },
              [&] {
                if (!failed().empty()) what = failed();
                fail_none();
              });
      SCOPED_TRACE("call " + std::to_string(call) + " of " + std::to_string(count) + ", " + what);
      if (what.empty()) {  // the number of status queries varies
        ++missed;
        continue;
      }
      EXPECT_TRUE(outcome.changed.empty()) << outcome.changed.front();
      EXPECT_EQ(outcome.losses, expected.losses);
      for (const auto& [state, values] : expected.values)
        EXPECT_EQ(outcome.values.at(state), values) << state;
      // The step after reloading values is another plan with memory of its own.
      if (outcome.lost == 0) {
        EXPECT_EQ(outcome.memory, expected.memory);
      }
      EXPECT_LE(outcome.memory, expected.memory + (32u << 10));
      EXPECT_LE(outcome.errors.size(), 1u);
      for (const std::string& error : outcome.errors)
        EXPECT_EQ(error.find(family_name(GetParam().type)), 0u) << error;
      functions.insert(what);
      lost += outcome.lost > 0 ? 1 : 0;
      errors += static_cast<int>(outcome.errors.size());
      if (HasFailure()) return;
    }
    EXPECT_LE(missed, count / stride / 8);
    std::string names;
    for (const std::string& each : functions) names += " " + each;
    std::printf("%ld calls, every %ld fails: %d errors, %d with values to load again;%s\n", count,
                stride, errors, lost, names.c_str());
  }

  // Every call in `ctest -C Full`, otherwise every `otherwise`-th.
  static long stride(long otherwise) {
    return std::getenv("VOLTA_TEST_FULL") != nullptr ? 1 : otherwise;
  }

  // After a fault every call reports the first reason; the CPU still works.
  void expect_lost(Training& training, const std::string& reason) {
    const std::string expected = to_string(test_device()) + " is lost: " + reason;
    const auto says_so = [&](const char* what, const std::function<void()>& act) {
      try {
        act();
        ADD_FAILURE() << what << " works on a device that is lost";
      } catch (const BackendError& error) {
        EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
            << what << ": " << error.what();
      }
    };
    fail_none();
    says_so("a step", [&] { training.step(4); });
    says_so("an upload", [&] { from_vector<float>({1}, {.device = test_device()}); });
    says_so("waiting", [&] { synchronize(test_device()); });
    says_so("a value", [&] { training.net.head.bias->to_vector<float>(); });
    const Tensor x = rand({4}) + 1;
    EXPECT_GT(x.min().item(), 0.99);
  }

  void* shim_ = nullptr;
};

TEST_P(DriverFaults, EveryLaunchOfAReplayedStep) {
  with_shim([&] {
    if (GetParam().type == DeviceType::cuda) {
      fail_calls("cuGraphLaunch", 4, true, 1);
      fail_calls(GetParam().launch, 0, true, 1);
    } else {
      fail_calls(GetParam().launch, 3, false, 1);
    }
  });
}

TEST_P(DriverFaults, EveryCallOfAReplayedStep) {
  // On CUDA new plans and their graphs contain addresses: the fourth run of the plan that the
  // second step builds is a replay.
  if (GetParam().type == DeviceType::cuda) {
    with_shim([&] { fail_calls("", 4, true, 1); });
  } else {
    with_shim([&] { fail_calls("", 3, false, 1); });
  }
}

TEST_P(DriverFaults, CallsOfAFirstStep) {
  with_shim([&] { fail_calls("", 0, true, stride(13)); });
}

TEST_P(DriverFaults, CallsOfTheStepThatIsCaptured) {
  if (GetParam().type != DeviceType::cuda) GTEST_SKIP() << "only CUDA captures";
  // The second step has another plan than the first; its third run is captured.
  with_shim([&] { fail_calls("", 3, true, stride(5)); });
}

TEST_P(DriverFaults, ADeviceLostMidStepStaysLost) {
  with_shim([&] {
    Training training;
    for (int step = 0; step < 2; ++step) training.step(step);
    synchronize(test_device());
    const bool is_cuda = GetParam().type == DeviceType::cuda;
    // On CUDA the third run of a plan is captured, so the launch of a new plan is made to fail.
    if (is_cuda) forget_plans();
    fail(GetParam().launch, 3, GetParam().fault, GetParam().fault);
    try {
      training.step(2);
      FAIL() << "no error";
    } catch (const BackendError& error) {
      const std::string expected = to_string(test_device()) + " is lost: ";
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(GetParam().fault_text), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(failed(), GetParam().launch);
    expect_lost(training, GetParam().type == DeviceType::cuda ? "" : GetParam().fault_text);
  });
}

TEST_P(DriverFaults, AFaultThatShowsWhileWaitingLosesTheDevice) {
  with_shim([&] {
    Training training;
    for (int step = 0; step < 2; ++step) training.step(step);
    fail(GetParam().wait, 1, GetParam().fault, GetParam().fault);
    EXPECT_THROW(synchronize(test_device()), BackendError);
    EXPECT_EQ(failed(), GetParam().wait);
    expect_lost(training, GetParam().type == DeviceType::cuda ? "" : GetParam().wait_text);
  });
}

// Products need workspace memory for each stream; the computation itself fits without it.
TEST_P(DriverFaults, ProductsOfAnotherStreamDoWithoutMemoryToWorkIn) {
  if (GetParam().type != DeviceType::cuda) GTEST_SKIP() << "products of OpenCL want none";
  with_shim([&] {
    constexpr int kOutOfMemory = 2;
    const Tensor a = rand({64, 64}, {.device = test_device()}).eval(),
                 b = rand({64, 64}, {.device = test_device()}).eval();
    const auto product = [&](int stream) {
      const StreamScope scope(stream);
      return matmul(a, b).to_vector<float>();
    };
    const std::vector<float> expected = product(0);
    std::vector<std::string> messages;
    set_log_handler([&](LogLevel, std::string_view text) { messages.emplace_back(text); });
    // There is some memory after the pool has released its cached chunks.
    fail("cuMemAlloc", 1, kOutOfMemory, kOutOfMemory);
    EXPECT_EQ(product(1), expected);
    EXPECT_EQ(failed(), "cuMemAlloc");
    EXPECT_TRUE(messages.empty()) << messages.front();
    // There is none: the result uses the rest of the chunk that contains the operands.
    fail("cuMemAlloc", -1, kOutOfMemory, kOutOfMemory);
    const std::vector<float> without = product(2);
    EXPECT_EQ(failed(), "cuMemAlloc");
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(without[i], expected[i], 1e-4f) << i;
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_NE(messages[0].find("no memory for the 32 MiB in which matrix products of stream 2"),
              std::string::npos)
        << messages[0];
    fail_none();
    set_log_handler({});
    EXPECT_EQ(product(1), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(OpenCl, DriverFaults, testing::Values(kOpenCl));
INSTANTIATE_TEST_SUITE_P(Cuda, DriverFaults, testing::Values(kCuda));

}  // namespace
}  // namespace volta
