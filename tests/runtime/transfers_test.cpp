// Every transferred byte is counted with its reason and source location, and errors for lack of
// memory name the holders.
#include "volta/transfers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

std::string here(int line) { return "transfers_test.cpp:" + std::to_string(line); }

class Transfers : public testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_cpu()) GTEST_SKIP() << "nothing moves";
    reset_transfers();
  }
  static const TransferRow* find(const TransferReport& report, const std::string& reason) {
    for (const TransferRow& row : report.rows) {
      if (row.reason == reason) return &row;
    }
    return nullptr;
  }
  static void expect(const char* reason, bool to_device, std::uint64_t count, std::uint64_t bytes,
                     const std::string& place) {
    const TransferReport report = transfer_report();
    const TransferRow* row = find(report, reason);
    std::ostringstream all;
    all << report;
    ASSERT_NE(row, nullptr) << reason << " is not in\n" << all.str();
    EXPECT_EQ(row->to_device, to_device) << reason;
    EXPECT_EQ(row->count, count) << reason;
    EXPECT_EQ(row->bytes, bytes) << reason;
    EXPECT_EQ(row->place, place) << reason;
    EXPECT_EQ(row->device, test_device());
    EXPECT_GT(row->seconds, 0) << reason;
  }
};

TEST_F(Transfers, HaveTheCallAndItsLine) {
  const Device device = test_device();
  const Tensor a = from_vector(std::vector<float>(100, 1.0f), {100}, {.device = device});
  expect("from_vector", true, 1, 400, here(__LINE__ - 1));
  const Tensor b = tensor({1, 2, 3}, {.device = device});
  expect("tensor", true, 1, 12, here(__LINE__ - 1));
  const Tensor c = from_vector(std::vector<float>(50, 1.0f), {50}).to(device);
  expect("to", true, 1, 200, here(__LINE__ - 1));
  (a * 2).sum().item();
  expect("item", false, 1, 4, here(__LINE__ - 1));
  (b * 2).to_vector<float>();
  expect("to_vector", false, 1, 12, here(__LINE__ - 1));
  std::ostringstream text;
  text << (b + 1);
  expect("printing", false, 1, 12, "");
}

TEST_F(Transfers, OfOneLineAddUp) {
  for (int i = 0; i < 3; ++i)
    from_vector(std::vector<float>(10, 1.0f), {10}, {.device = test_device()}).eval();
  expect("from_vector", true, 3, 120, here(__LINE__ - 1));
  EXPECT_EQ(transfer_report().bytes_to_device(), 120u);
  EXPECT_EQ(transfer_report().bytes_to_host(), 0u);
  reset_transfers();
  EXPECT_TRUE(transfer_report().rows.empty());
}

TEST_F(Transfers, OfMixedDevicesNameTheOperation) {
  const LogLevel level = log_level();
  set_log_level(LogLevel::error);
  const Tensor a = from_vector(std::vector<float>(8, 1.0f), {8}, {.device = test_device()});
  const Tensor b = from_vector(std::vector<float>(8, 2.0f), {8});
  (a + b).eval();
  set_log_level(level);
  expect("mixed devices in add", true, 1, 32, here(__LINE__ - 2));
}

// Without a call of `to`, the report names the operation that moved the value.
TEST_F(Transfers, WithoutACallOfToHaveTheirOwnReasons) {
  const LogLevel level = log_level();
  set_log_level(LogLevel::error);
  const Tensor host = from_vector(std::vector<float>(8, 2.0f), {8});
  Tensor device = full({8}, 1.5, {.device = test_device()}).clone().eval();
  reset_transfers();
  device.copy_(host);
  expect("copy_", true, 1, 32, here(__LINE__ - 1));
  device[3] = from_vector(std::vector<float>(1, 7.0f), {1})[0];
  expect("assignment", true, 1, 4, here(__LINE__ - 1));
  reset_transfers();
  device[4] += from_vector(std::vector<float>(1, 7.0f), {1})[0];
  expect("assignment", true, 1, 4, here(__LINE__ - 1));
  Tensor sum = host.clone().eval();
  reset_transfers();
  sum += device;
  expect("mixed devices in add", true, 1, 32, here(__LINE__ - 1));
  expect("mixed devices in +=", false, 1, 32, here(__LINE__ - 2));
  Tensor weight = rand({8}).set_requires_grad();
  reset_transfers();
  const Tensor product = weight * device;
  product.sum().backward();
  expect("gradients", false, 1, 32, here(__LINE__ - 2));
  Tensor there = rand({8}, {.device = test_device()}).set_requires_grad();
  there.square().backward(host);
  nn::clip_grad_norm({weight, there}, 1e-3);
  for (const bool to_device : {true, false}) {
    const TransferReport report = transfer_report();
    EXPECT_TRUE(std::any_of(report.rows.begin(), report.rows.end(), [&](const TransferRow& row) {
      return row.reason == "clip_grad_norm" && row.to_device == to_device && row.bytes == 4 &&
             row.place == here(__LINE__ - 5);
    }));
  }
  EXPECT_EQ(find(transfer_report(), "to"), nullptr);
  set_log_level(level);
}

TEST_F(Transfers, OfModulesLoadersAndFiles) {
  nn::Linear model(4, 3);
  model.to(test_device());
  expect("Module::to", true, 2, 60, here(__LINE__ - 1));
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "volta-transfers.safetensors").string();
  save(model.state_dict(), path);
  expect("save", false, 2, 60, "");
  load(path, {.device = test_device()});
  std::filesystem::remove(path);
  const TransferReport report = transfer_report();
  const TransferRow* loaded = find(report, "load");
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->bytes, 60u);
  const data::TensorDataset numbers(ones({6, 2}), zeros({6}));
  for (const data::Batch& batch :
       data::DataLoader(numbers, {.batch_size = 3, .device = test_device()}))
    batch.x.eval();
  EXPECT_NE(find(transfer_report(), "data loader"), nullptr);
}

// After the first step only the batch and the loss that is read are transferred.
TEST_F(Transfers, AStepMovesTheBatchAlone) {
  const Device device = test_device();
  nn::Sequential model(
      {nn::Linear(8, 16), nn::BatchNorm1d(16), nn::ReLU(), nn::Dropout(0.1), nn::Linear(16, 4)});
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  optim::CosineLR schedule(optimizer, {.total_steps = 10});
  const auto step = [&] {
    const Tensor x = from_vector(std::vector<float>(32, 0.5f), {4, 8}, {.device = device});
    const Tensor y = from_vector(std::vector<std::int64_t>{0, 1, 2, 3}, {4}, {.device = device});
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    nn::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    schedule.step();
    return loss.item();
  };
  step();
  for (int i = 0; i < 3; ++i) {
    reset_transfers();
    step();
    EXPECT_EQ(transfer_report().bytes_to_device(), 4 * 32u + 8 * 4u);
    EXPECT_EQ(transfer_report().bytes_to_host(), 4u);
  }
}

TEST_F(Transfers, UsersNameTheirOwn) {
  const TransferReason reason("sensor");
  const int line = __LINE__ - 1;
  from_vector(std::vector<float>(4, 1.0f), {4}, {.device = test_device()});
  expect("sensor", true, 1, 16, here(line));
}

// The holders of memory when it runs out.
class Holders : public testing::Test {
 protected:
  void TearDown() override {
    set_memory_limit(test_device(), 0);
    empty_cache(test_device());
  }
};

TEST_F(Holders, AreNamedWithShapeAndLine) {
  const Device device = test_device();
  empty_cache(device);
  const Tensor big = rand({512, 1024}, {.device = device});
  const int line = __LINE__ - 1;
  big.eval();
  const Tensor copy = from_vector(std::vector<float>(1 << 17, 1.0f), {1 << 17}, {.device = device});
  const int copied = __LINE__ - 1;
  set_memory_limit(device, memory_stats(device).reserved);
  const Tensor wanted = rand({4096, 4096}, {.device = device});
  std::string message;
  try {
    wanted.eval();
  } catch (const OutOfMemory& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("64.00 MiB requested"), std::string::npos) << message;
  EXPECT_NE(message.find("\nheld by:"), std::string::npos) << message;
  EXPECT_NE(message.find("2.00 MiB  f32 [512, 1024] "), std::string::npos) << message;
  EXPECT_NE(message.find("(" + here(line) + ")"), std::string::npos) << message;
  EXPECT_NE(message.find("512.00 KiB  f32 [131072] of the host's values (" + here(copied) + ")"),
            std::string::npos)
      << message;
  set_memory_limit(device, 0);
  EXPECT_EQ(wanted.sum().item() > 0, true);  // nothing was lost
}

// A batch that does not fit leaves the training unchanged; a smaller one continues.
TEST_F(Holders, TrainingGoesOnAtASmallerBatch) {
  const Device device = test_device();
  manual_seed(1);
  nn::Sequential model({nn::Linear(64, 256), nn::ReLU(), nn::Linear(256, 8)});
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  const auto step = [&](std::int64_t batch) {
    const Tensor x = ones({batch, 64}, {.device = device}) * 0.5;
    const Tensor y = zeros({batch, 8}, {.device = device});
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    return loss.item();
  };
  const double first = step(64);
  set_memory_limit(device, memory_stats(device).reserved + (std::uint64_t{24} << 20));
  const std::vector<float> before = model.parameters()[0].to_vector<float>();
  EXPECT_THROW(step(1 << 16), OutOfMemory);
  EXPECT_EQ(model.parameters()[0].to_vector<float>(), before);
  double last = first;
  for (int i = 0; i < 20; ++i) last = step(64);
  EXPECT_LT(last, first);
}

// The arena left by a large plan is released when memory is needed.
TEST_F(Holders, WhatPlansKeepIsGivenBack) {
  const Device device = test_device();
  empty_cache(device);
  const std::uint64_t before = memory_stats(device).in_use;
  {
    const Tensor x = rand({1024, 1024}, {.device = device}).eval();
    Tensor y = matmul(x, x);  // 4 MiB that nobody holds when the sum is computed
    y = matmul(y, x);
    y = y.sum();
    y.item();
  }
  EXPECT_GE(memory_stats(device).in_use, before + (4u << 20));
  empty_cache(device);
  EXPECT_LE(memory_stats(device).in_use, before + (1u << 16));
}

}  // namespace
}  // namespace volta
