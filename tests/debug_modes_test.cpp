// VOLTA_EAGER, VOLTA_CHECK and VOLTA_DUMP_KERNELS: how programs are looked into.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "child.h"
#include "core/registry.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;
using testing_child::Folder;
using testing_child::in_child;

bool opencl_here() { return device_count(DeviceType::opencl) > 0; }

// Losses of a small network of most kinds of steps.
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
    EXPECT_FALSE(x.sort(1).values.is_pending());
    const std::vector<double> eager = train(Device::cpu(), 3);
    for (std::size_t i = 0; i < lazy.size(); ++i) EXPECT_NEAR(eager[i], lazy[i], 1e-4);
  });
  const Tensor y = rand({4, 4}) + 1;
  EXPECT_TRUE(testing_child::is_child() || y.is_pending());
}

TEST(DebugModes, ACheckedTrainingIsTheSame) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const std::vector<double> cpu = train(Device::cpu(), 3);
  in_child({{"VOLTA_CHECK", "cpu"}}, [&] {
    const std::vector<double> checked = train(Device::opencl(0), 3);
    for (std::size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(checked[i], cpu[i], 1e-4);
    const Tensor x = rand({40, 30}).to(Device::opencl(0));
    const auto sorted = x.sort(1);
    EXPECT_GE((sorted.values.mean() + x.matmul(x.t()).tanh().sum()).item(), 0);
  });
}

// A compiler that takes atan for the sine.
TEST(DebugModes, CheckingNamesTheKernelThatDiffers) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const Folder folder;
  in_child({{"VOLTA_CHECK", "cpu"},
            {"VOLTA_OPENCL_OPTIONS", "-Datan=sin"},
            {"VOLTA_CACHE_DIR", folder.path().string()}},
           [] {
             const Tensor x = linspace(0.5, 2, 10).to(Device::opencl(0));
             EXPECT_NEAR((x + 1).exp().sum().item(), 78.5, 1);  // what is right passes
             std::string message;
             try {
               (x * 2).atan().sum().item();
             } catch (const BackendError& error) {
               message = error.what();
             }
             EXPECT_NE(message.find("VOLTA_CHECK=cpu: step "), std::string::npos) << message;
             EXPECT_NE(message.find("atan"), std::string::npos) << message;
             EXPECT_NE(message.find("differs on opencl:0"), std::string::npos) << message;
             EXPECT_NEAR((x + 2).sum().item(), 32.5, 1e-4);  // and the device goes on
           });
}

TEST(DebugModes, AnotherWordForCheckIsRefused) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  in_child({{"VOLTA_CHECK", "gpu"}},
           [] { EXPECT_THROW((rand({3}).to(Device::opencl(0)) + 1).eval(), ArgumentError); });
}

TEST(DebugModes, KernelsAreDumpedOnce) {
  const Folder folder;
  in_child({{"VOLTA_DUMP_KERNELS", folder / "kernels"}}, [] {
    (rand({7, 5}) * 2 + 1).sum(1).eval();
    if (opencl_here()) (rand({7, 5}).to(Device::opencl(0)) * 2 + 1).sum(1).eval();
  });
  if (testing_child::is_child()) return;
  std::set<std::string> kinds;
  for (const auto& file : fs::directory_iterator(folder.path() / "kernels")) {
    kinds.insert(file.path().extension().string());
    std::ifstream stream(file.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::string name = file.path().stem().string();
    if (file.path().extension() == ".cl") {
      EXPECT_NE(text.find(name), std::string::npos);  // the kernel's name is the file's
    } else {
      EXPECT_NE(text.find("slot 0"), std::string::npos) << text;
    }
  }
  EXPECT_TRUE(kinds.contains(".program"));
  EXPECT_EQ(kinds.contains(".cl"), opencl_here());
}

}  // namespace
}  // namespace volta
