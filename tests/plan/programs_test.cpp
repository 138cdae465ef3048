// Every kernel program that the run generates (for networks, a part of them) is also compiled by
// NVRTC, with or without a GPU, if there is a toolkit and VOLTA_TEST_NVRTC=1 is set. Both counts
// must match.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernel/emit.h"
#include "kernel/observer.h"
#include "plan/every_program.h"
#include "support/nvrtc_compile.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::testing {
namespace {

constexpr const char *kArchitecture = "sm_90", *kVirtualArchitecture = "compute_90";

class EveryProgram : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* asked = std::getenv("VOLTA_TEST_NVRTC");
    active_ = asked != nullptr && std::string(asked) == "1";
    observe();
  }

  // Works also after a test that used the observer itself.
  void observe() {
    if (!active_) return;
    kernel::set_program_observer([this](const kernel::Program& program) {
      const std::string text = kernel::to_text(program);
      if (texts_.insert(text).second && is_wanted(text)) programs_.push_back(program);
    });
  }

  void TearDown() override {
    if (!active_) return;
    kernel::set_program_observer({});
    const Nvrtc nvrtc;
    if (!nvrtc.present()) {
      std::printf("programs: %zu, NVRTC is not here\n", programs_.size());
      return;
    }
    std::atomic<std::size_t> next{0}, compiled{0};
    std::vector<std::string> problems(programs_.size());
    const auto compile_one = [&](std::size_t i) {
      try {
        nvrtc.compile(kernel::emit(programs_[i], kernel::Dialect::Cuda).text, kArchitecture);
        ++compiled;
      } catch (const std::exception& error) {
        problems[i] = error.what();
      }
    };
    const auto work = [&] {
      for (std::size_t i = next.fetch_add(kTogether); i < programs_.size();
           i = next.fetch_add(kTogether)) {
        const std::size_t end = std::min(i + kTogether, programs_.size());
        compile_one(i);
        if (compile_together(nvrtc, i + 1, end)) {
          compiled += end - i - 1;
        } else {
          for (std::size_t one = i + 1; one < end; ++one) compile_one(one);
        }
      }
    };
    std::thread other(work);
    work();
    other.join();
    std::printf("programs: %zu, compiled by NVRTC: %zu\n", programs_.size(), compiled.load());
    for (const std::string& problem : problems) {
      if (!problem.empty()) ADD_FAILURE() << problem;
    }
  }

 private:
  // Most of NVRTC's time does not depend on the kernel, and half of the rest is the assembler's. So
  // one program in this many is compiled to machine code, and the others together to PTX.
  static constexpr std::size_t kTogether = 17;

  // Whether programs [begin, end) compile as one text, each in its own namespace.
  bool compile_together(const Nvrtc& nvrtc, std::size_t begin, std::size_t end) const {
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
      text += "namespace program" + std::to_string(i) + " {\n" +
              kernel::emit(programs_[i], kernel::Dialect::Cuda).text + "\n}\n";
    }
    try {
      nvrtc.ptx(text, kVirtualArchitecture);
      return true;
    } catch (const std::exception&) {
      return false;  // compiling each by itself finds the failing one
    }
  }

  // Tests of networks make thousands of kernels from operations that are also compiled by
  // themselves, so a quarter of theirs is enough unless all are requested.
  static bool is_wanted(const std::string& text) {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    if (test == nullptr || std::getenv("VOLTA_TEST_FULL") != nullptr) return true;
    const bool is_network = std::string(test->file()).find("/nn/") != std::string::npos;
    return !is_network || std::hash<std::string>()(text) % 4 == 0;
  }

  bool active_ = false;
  std::set<std::string> texts_;
  std::vector<kernel::Program> programs_;
};

// GoogleTest owns this object.
EveryProgram* const every_program = [] {
  auto* environment = new EveryProgram;
  ::testing::AddGlobalTestEnvironment(environment);
  return environment;
}();

}  // namespace

NoProgramsCollected::NoProgramsCollected() { kernel::set_program_observer({}); }
NoProgramsCollected::~NoProgramsCollected() { every_program->observe(); }

namespace {

TEST(Programs, AnObserverSeesEachTextOnce) {
  const TensorOptions here{.device = test_device()};
  const Tensor a = rand({9, 5}, here).eval(), b = rand({300, 7}, here).eval();
  std::vector<std::string> texts;
  kernel::set_program_observer(
      [&](const kernel::Program& program) { texts.push_back(kernel::to_text(program)); });
  (a * 3.25 - 0.125).eval();
  ASSERT_EQ(texts.size(), 1u);
  (b * 4.5 - 7.25).eval();  // another size and other numbers give the same program
  EXPECT_EQ(texts.size(), 1u);
  (b / 4.5).eval();
  EXPECT_EQ(texts.size(), 2u);
  kernel::set_program_observer({});
  (b * 4.5 / 3.5).eval();
  EXPECT_EQ(texts.size(), 2u);
  every_program->observe();
}

}  // namespace
}  // namespace volta::testing
