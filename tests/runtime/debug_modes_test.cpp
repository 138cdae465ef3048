// The debugging modes VOLTA_EAGER, VOLTA_CHECK and VOLTA_DUMP_KERNELS.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "backend/registry.h"
#include "kernel/program.h"
#include "plan/calls/attention.h"
#include "runtime/check/check.h"
#include "support/child.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;
using testing_child::Folder;
using testing_child::in_child;

bool opencl_here() { return device_count(DeviceType::opencl) > 0; }

// The losses of a small network with most kinds of steps.
std::vector<double> train(Device device, int steps) {
  manual_seed(5);
  nn::Sequential model({nn::Conv2d(1, 4, 3, {.padding = 1}), nn::BatchNorm2d(4), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Flatten(), nn::Linear(4 * 4 * 4, 16), nn::GELU(),
                        nn::Linear(16, 5)});
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 1e-2});
  const Tensor x = rand({6, 1, 8, 8}).to(device);
  const Tensor y = tensor({0, 1, 2, 3, 4, 0}, {.dtype = DType::i64}).to(device);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    nn::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

TEST(DebugModes, EagerEvaluatesAtTheCall) {
  const std::vector<double> lazy = train(Device::cpu(), 3);
  in_child({{"VOLTA_EAGER", "1"}}, [&] {
    const Tensor x = rand({4, 4}) + 1;
    EXPECT_FALSE(x.is_pending());
    EXPECT_FALSE(sort(x, 1).values.is_pending());
    const std::vector<double> eager = train(Device::cpu(), 3);
    for (std::size_t i = 0; i < lazy.size(); ++i) EXPECT_NEAR(eager[i], lazy[i], 1e-4);
  });
  const Tensor y = rand({4, 4}) + 1;
  EXPECT_TRUE(testing_child::is_child() || y.is_pending());
}

TEST(DebugModes, EagerIsOnOrOff) {
  for (const char* value : {"1", "on", "0", "off", "yes"}) {
    in_child({{"VOLTA_EAGER", value}}, [] {
      const std::string here = std::getenv("VOLTA_EAGER");
      try {
        const Tensor x = rand({4, 4}) + 1;
        EXPECT_EQ(x.is_pending(), here == "0" || here == "off") << here;
        EXPECT_NE(here, "yes");
      } catch (const ArgumentError& error) {
        EXPECT_EQ(error.what(), "VOLTA_EAGER=" + here + ": expected 1 or on, 0 or off");
        EXPECT_EQ(here, "yes");
      }
    });
  }
}

TEST(DebugModes, ACheckedTrainingIsTheSame) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const std::vector<double> cpu = train(Device::cpu(), 3);
  in_child({{"VOLTA_CHECK", "cpu"}}, [&] {
    const std::vector<double> checked = train(Device::opencl(0), 3);
    for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(checked[i], cpu[i], 1e-4);
    const Tensor x = rand({40, 30}).to(Device::opencl(0));
    const Sorted sorted = sort(x, 1);
    EXPECT_GE((sorted.values.mean() + x.matmul(x.t()).tanh().sum()).item(), 0);
  });
}

// A device that computes like the CPU, except for one element.
class WrongBackend : public Backend {
 public:
  float wrong = 0;                                 // added to the element
  std::optional<kernel::ErrorRecord> wrong_index;  // reported by runs

  int device_count() const override { return 1; }
  std::string device_name(int) const override { return "wrong"; }
  bool device_is_gpu(int) const override { return true; }
  std::uint64_t device_memory(int) const override { return 1 << 30; }
  bool supports(int, DType) const override { return true; }
  Address allocate(int, std::size_t bytes) override { return cpu_.allocate(0, bytes); }
  void release(int, Address memory) override { cpu_.release(0, memory); }
  void upload(int, Address to, const void* from, std::size_t bytes) override {
    cpu_.upload(0, to, from, bytes);
  }
  void download(int, void* to, Address from, std::size_t bytes) override {
    cpu_.download(0, to, from, bytes);
  }
  void copy(int, Address to, Address from, std::size_t bytes) override {
    cpu_.copy(0, to, from, bytes);
  }
  void synchronize(int) override {}
  std::unique_ptr<Executable> prepare(int, const plan::PlanSteps& steps) override {
    struct Wrong : Executable {
      void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
               std::span<const std::uint64_t> args) override {
        right->run(leaves, outputs, arena, args);
        static_cast<float*>(outputs[0].pointer())[5] += backend->wrong;
      }
      std::optional<kernel::ErrorRecord> take_error() override {
        return std::exchange(backend->wrong_index, std::nullopt);
      }
      std::unique_ptr<Executable> right;
      WrongBackend* backend = nullptr;
    };
    // The CPU has no call for attention.
    struct Attention : Executable {
      void run(std::span<const Address> leaves, std::span<const Address> outputs, Address,
               std::span<const std::uint64_t>) override {
        std::vector<const std::byte*> reads;
        for (const auto& read : step.reads)
          reads.push_back(static_cast<const std::byte*>(leaves[read.buffer.index].pointer()));
        std::vector<std::byte*> writes;
        for (const plan::BufferRef& buffer : step.writes)
          writes.push_back(static_cast<std::byte*>(outputs[buffer.index].pointer()));
        plan::attend(step, reads, writes);
      }
      std::optional<kernel::ErrorRecord> take_error() override { return std::nullopt; }
      plan::AttentionStep step;
    };
    auto executable = std::make_unique<Wrong>();
    if (const auto* attention = std::get_if<plan::AttentionStep>(&steps.steps.front())) {
      auto own = std::make_unique<Attention>();
      own->step = *attention;
      executable->right = std::move(own);
    } else {
      executable->right = cpu_.prepare(0, steps);
    }
    executable->backend = this;
    return executable;
  }

 private:
  Backend& cpu_ = device_entry(Device::cpu()).backend;
};

struct WrongDevice {
  WrongBackend backend;
  Pool pool{backend, 0, "wrong:0"};
  std::recursive_mutex lock;
  Streams streams{backend, 0, lock};
  PinnedCache pinned{backend, 0};
  DeviceEntry entry{Device::cpu(), backend, 0, pool, lock, streams, pinned};
};

TEST(DebugModes, CheckingNamesTheAttentionThatDiffers) {
  WrongDevice device;
  plan::AttentionStep step;
  step.dtype = DType::f32;
  step.causal = true;
  step.batch = 1, step.heads = step.kv_heads = 2;
  step.queries = step.keys = 3, step.size = 4;
  step.label = "attention";
  for (std::uint32_t i = 0; i < 3; ++i)
    step.reads.push_back({{plan::BufferRef::Kind::Leaf, i, 0}, {24, 12, 4, 1}, 0});
  for (std::uint32_t i = 0; i < 2; ++i)
    step.writes.push_back({plan::BufferRef::Kind::Output, i, 0});
  plan::PlanSteps steps;
  steps.steps.emplace_back(step);
  steps.leaf_bytes = {96, 96, 96};
  steps.output_bytes = {96, 24};
  std::vector<float> q(24, 0.5f), k(24, 0.25f), v(24, 2.0f), y(24), logs(6);
  const std::vector<Address> leaves{{q.data(), 0}, {k.data(), 0}, {v.data(), 0}},
      outputs{{y.data(), 0}, {logs.data(), 0}};
  plan::CheckedSteps checked(device.entry, steps);
  checked.run(leaves, outputs, {}, {});
  for (const float value : y) EXPECT_FLOAT_EQ(value, 2.0f);
  for (std::size_t i = 0; i < logs.size(); ++i)
    EXPECT_FLOAT_EQ(logs[i], 0.5f + std::log(static_cast<float>(i % 3 + 1)));
  device.backend.wrong = 0.01f;
  try {
    checked.run(leaves, outputs, {}, {});
    FAIL() << "nothing was told";
  } catch (const BackendError& error) {
    const std::string told = error.what();
    EXPECT_NE(told.find("step 1 of 1, attention"), std::string::npos) << told;
    EXPECT_NE(told.find("element 5 of 24 f32 is 2.00999"), std::string::npos) << told;
  }
}

TEST(DebugModes, CheckingNamesTheStepThatDiffers) {
  WrongDevice device;
  WrongBackend& backend = device.backend;
  DeviceEntry& entry = device.entry;
  plan::MatmulStep product;
  product.m = 3, product.n = 4, product.k = 2;
  product.lda = 2, product.ldb = product.ldc = 4;
  product.a = {plan::BufferRef::Kind::Leaf, 0, 0};
  product.b = {plan::BufferRef::Kind::Leaf, 1, 0};
  product.c = {plan::BufferRef::Kind::Output, 0, 0};
  product.label = "linear";
  plan::PlanSteps steps;
  steps.steps.emplace_back(product);
  steps.leaf_bytes = {24, 32};
  steps.output_bytes = {48};
  std::vector<float> a(6, 1.5f), b(8, 2.0f), c(12, 0.0f);
  const std::vector<Address> leaves{{a.data(), 0}, {b.data(), 0}}, outputs{{c.data(), 0}};
  plan::CheckedSteps checked(entry, steps);
  checked.run(leaves, outputs, {}, {});
  EXPECT_EQ(c, std::vector<float>(12, 6.0f));
  const auto message = [&](float added) -> std::string {
    backend.wrong = added;
    try {
      checked.run(leaves, outputs, {}, {});
    } catch (const BackendError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(1e-5f), "");  // rounding
  EXPECT_NE(message(std::numeric_limits<float>::infinity()).find("is inf"), std::string::npos);
  EXPECT_EQ(message(0.01f),
            "VOLTA_CHECK=cpu: step 1 of 1, matmul \"linear [1, 3, 2] x [2, 4]\", differs on cpu: "
            "element 5 of 12 f32 is 6.01000023, on the CPU 6");
  EXPECT_EQ(checked.take_error(), std::nullopt);
  backend.wrong_index = kernel::ErrorRecord{1, 0, 99, 10};
  EXPECT_EQ(message(0),
            "VOLTA_CHECK=cpu: step 1 of 1, matmul \"linear [1, 3, 2] x [2, 4]\", differs: index 99 "
            "is out of range [0, 10) on cpu, but none is on cpu");
}

// A wrong index is reported as without the check: in the step where it occurs and in later ones.
void check_index_errors(Device device) {
  const Tensor table = rand({10, 4}, {.device = device}).eval();
  const Tensor good = tensor({1, 9}, {.dtype = DType::i64}).to(device);
  const Tensor bad = tensor({1, 99}, {.dtype = DType::i64}).to(device);
  const auto message = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const IndexError& error) {
      return error.what();
    }
    return "nothing was told";
  };
  const auto expect_told = [&](const char* op, const auto& body) {
    const std::string told = message(body);
    EXPECT_EQ(told.find(op), 0) << told;
    EXPECT_NE(told.find("debug_modes_test.cpp:"), std::string::npos) << told;
    EXPECT_NE(told.find("index 99 is out of range ["), std::string::npos) << told;
  };
  expect_told("index_select", [&] { (index_select(table, 0, bad) * 2).to_vector<float>(); });
  expect_told("index_select", [&] { index_select(table, 0, bad).sum().item(); });
  expect_told("index_select", [&] { index_select(table, 0, bad).eval_async().wait(); });
  // The second of two places in one plan.
  expect_told("gather", [&] {
    const Tensor rows = index_select(table, 0, good);
    gather(rows, 1, bad.reshape({2, 1})).sum().item();
  });
  EXPECT_GT(index_select(table, 0, good).sum().item(), 0);  // an error does not affect other runs
  expect_told("index_select", [&] { index_select(table, 0, bad).sum().item(); });
  Tensor elsewhere;
  std::thread([&] { elsewhere = index_select(table, 0, bad) + 1; }).join();
  expect_told("index_select", [&] { elsewhere.sum().item(); });

  nn::Embedding embedding(10, 4, {.device = device});
  optim::SGD optimizer(embedding.parameters(), {.lr = 0.1});
  expect_told("", [&] {
    embedding(bad).sum().backward();
    optimizer.step();
    embedding.parameters()[0].to_vector<float>();
  });
}

TEST(DebugModes, CheckingTellsWrongIndicesOnTheCpu) {
  in_child({{"VOLTA_CHECK", "cpu"}}, [] { check_index_errors(Device::cpu()); });
}

TEST(DebugModes, CheckingTellsWrongIndicesOfADevice) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  in_child({{"VOLTA_CHECK", "cpu"}}, [] { check_index_errors(Device::opencl(0)); });
}

// The expectations above hold without the check, too.
TEST(DebugModes, WrongIndicesAreToldUnchecked) {
  check_index_errors(Device::cpu());
  if (opencl_here()) check_index_errors(Device::opencl(0));
}

TEST(DebugModes, AnotherWordForCheckIsRefused) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  in_child({{"VOLTA_CHECK", "gpu"}},
           [] { EXPECT_THROW((rand({3}).to(Device::opencl(0)) + 1).eval(), ArgumentError); });
}

// A program may end while a device still compiles and computes.
TEST(DebugModes, AProgramThatEndsEarlyEndsWell) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const Folder folder;
  in_child({{"POCL_CACHE_DIR", folder / "pocl"}, {"VOLTA_CACHE_DIR", folder / "volta"}},
           [] { (rand({70, 50}).to(Device::opencl(0)) * 2 + 1).exp().sum(1).eval(); });
}

TEST(DebugModes, KernelsAreDumpedOnce) {
  const Folder folder;
  in_child({{"VOLTA_DUMP_KERNELS", folder / "kernels"}}, [] {
    (rand({7, 5}) * 2 + 1).sum(1).eval();
    if (opencl_here()) (rand({7, 5}).to(Device::opencl(0)) * 2 + 1).sum(1).to_vector<float>();
  });
  if (testing_child::is_child()) return;
  std::set<std::string> kinds;
  for (const auto& file : fs::directory_iterator(folder.path() / "kernels")) {
    kinds.insert(file.path().extension().string());
    std::ifstream stream(file.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::string name = file.path().stem().string();
    if (file.path().extension() == ".cl") {
      EXPECT_NE(text.find(name), std::string::npos);  // the file is named after the kernel
    } else {
      EXPECT_NE(text.find("slot 0"), std::string::npos) << text;
    }
  }
  EXPECT_TRUE(kinds.contains(".program"));
  EXPECT_EQ(kinds.contains(".cl"), opencl_here());
}

}  // namespace
}  // namespace volta
