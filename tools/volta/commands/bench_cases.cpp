#include "commands/bench_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "output/units.h"
#include "train/recipe.h"
#include "train/training_step.h"
#include "volta/convolution.h"
#include "volta/counters.h"
#include "volta/execution.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int kFewestBlocks = 5, kBlocks = 20, kMostWarmups = 20;

// ---- Cases.

// A case that reads `reads` tensors and writes one.
BenchCase streaming(const char* name, const char* what, Device device, const Shape& shape,
                    int reads, Tensor (*compute)(const Tensor& x, const Tensor& y)) {
  const double bytes = 4.0 * static_cast<double>(shape.numel());
  return {name, fmt::format("{}, {}", what, human_bytes(static_cast<std::uint64_t>(bytes))), [=] {
            const Tensor x = rand(shape, {.device = device}).eval();
            const Tensor y = reads > 1 ? rand(shape, {.device = device}).eval() : x;
            return BenchStep{[=] { compute(x, y).eval(); }, bytes * (reads + 1), "B"};
          }};
}

BenchCase product(Device device, DType dtype, std::int64_t n) {
  return {fmt::format("matmul-{}-{}", name_of(dtype), n), fmt::format("[{0}, {0}] x [{0}, {0}]", n),
          [=] {
            const Tensor a = randn({n, n}, {.device = device}).to(dtype).eval();
            const Tensor b = randn({n, n}, {.device = device}).to(dtype).eval();
            const auto size = static_cast<double>(n);
            return BenchStep{[=] { a.matmul(b).eval(); }, 2 * size * size * size, "FLOP"};
          }};
}

BenchCase convolution(Device device, std::int64_t batch) {
  constexpr std::int64_t kChannels = 64, kSize = 28, kKernel = 3;
  return {
      "conv2d", fmt::format("{} images [{}, {}, {}], 3 x 3", batch, kChannels, kSize, kSize), [=] {
        const Tensor x = randn({batch, kChannels, kSize, kSize}, {.device = device}).eval();
        const Tensor w = randn({kChannels, kChannels, kKernel, kKernel}, {.device = device}).eval();
        const auto outputs = static_cast<double>(x.numel());
        return BenchStep{[=] { conv2d(x, w, {}, {.padding = 1}).eval(); },
                         2 * outputs * kChannels * kKernel * kKernel, "FLOP"};
      }};
}

BenchCase transfer(bool up, Device device, std::int64_t n) {
  const double bytes = 4.0 * static_cast<double>(n);
  return {up ? "upload" : "download", human_bytes(static_cast<std::uint64_t>(bytes)), [=] {
            const Device from = up ? Device::cpu() : device, to = up ? device : Device::cpu();
            const Tensor random = rand({n}, {.device = from}).eval();
            const Tensor x = up ? random.pin_memory() : random;
            // A tensor that was downloaded keeps its copy on the host; its clone has none.
            return BenchStep{[=] { (up ? x : x.clone()).to(to).eval(); }, bytes, "B"};
          }};
}

BenchCase launch(Device device) {
  return {"launch", "a step of one small kernel, waited for", [=] {
            const Tensor x = rand({16}, {.device = device}).eval();
            return BenchStep{[=] {
              (x * 2 + 1).eval();
              synchronize(device);
            }};
          }};
}

// Forward pass, backward pass and update on one batch, without loading data.
BenchCase training(const char* name, Device device) {
  return {std::string("train-") + name, "training steps of 64 images", [=] {
            struct Training {
              Settings settings;
              std::unique_ptr<Task> task;
              data::Batch batch;
              std::unique_ptr<TrainingStep> step;
            };
            const auto all = std::make_shared<Training>();
            const Recipe& recipe = find_recipe(name);
            all->settings = recipe.all_settings();
            for (const char* setting : {"count=64", "batch=64", "workers=0"})
              all->settings.set(setting);
            all->task = recipe.make(all->settings, device);
            all->batch = *all->task->loader().begin();
            all->step = std::make_unique<TrainingStep>(*all->task, all->settings);
            return BenchStep{[all, device] {
                               const std::vector<Tensor> made = all->step->record(all->batch);
                               submit(device);
                             },
                             1, "step"};
          }};
}

// A clone is not a copy until one of the two changes, so this negates; the sign costs nothing.
Tensor copied(const Tensor& x, const Tensor& /*y*/) { return -x; }
Tensor chained(const Tensor& x, const Tensor& y) { return (x * y + x).relu() * 0.5 - y; }
Tensor normalised(const Tensor& x, const Tensor& /*y*/) { return x.softmax(-1); }

}  // namespace

std::vector<BenchCase> bench_cases(Device device) {
  constexpr std::uint64_t kLargeMemory = std::uint64_t{8} << 30;
  const DeviceCapabilities can = device.capabilities();
  const bool large = can.gpu && device.total_memory() >= kLargeMemory;
  // Rows of 1024 elements: larger than every cache.
  const std::int64_t rows = large ? 1 << 16 : 1 << 14;
  std::vector<BenchCase> cases = {
      streaming("copy", "y = -x", device, {rows, 1024}, 1, copied),
      streaming("elementwise", "five operations in one kernel", device, {rows, 1024}, 2, chained),
      streaming("softmax", "rows of 1024", device, {rows, 1024}, 1, normalised)};
  for (const std::int64_t n : can.gpu ? std::vector<std::int64_t>{1024, 4096, 8192}
                                      : std::vector<std::int64_t>{256, 512, 1024})
    cases.push_back(product(device, DType::f32, n));
  if (can.gpu && can.half_products)
    for (const std::int64_t n : {1024, 4096, 8192})
      cases.push_back(product(device, DType::bf16, n));
  cases.push_back(convolution(device, can.gpu ? 256 : 16));
  if (device.is_gpu()) {
    cases.push_back(transfer(true, device, rows * 256));
    cases.push_back(transfer(false, device, rows * 256));
  }
  cases.push_back(launch(device));
  cases.push_back(training("mlp", device));
  cases.push_back(training("digits-cnn", device));
  return cases;
}

Timing time_step(const std::function<void()>& step, Device device, double seconds) {
  double one = 0;  // seconds of a warm step
  for (int i = 0; i < kMostWarmups; ++i) {
    const Counters before = counters();
    const auto start = Clock::now();
    step();
    synchronize(device);
    one = seconds_since(start);
    const Counters after = counters();
    const bool settled = after.plans_built == before.plans_built &&
                         after.compilations == before.compilations &&
                         after.timings == before.timings && after.allocations == before.allocations;
    if (i > 0 && settled) break;
  }
  const double block_seconds = seconds / kBlocks;
  const auto block =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(block_seconds / std::max(one, 1e-9)));
  std::vector<double> times;
  const auto start = Clock::now();
  while (static_cast<int>(times.size()) < kFewestBlocks || seconds_since(start) < seconds) {
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < block; ++i) step();
    synchronize(device);
    times.push_back(seconds_since(begin) / static_cast<double>(block));
  }
  std::ranges::sort(times);
  const auto quartile = [&](std::size_t which) { return times[(times.size() - 1) * which / 4]; };
  return {quartile(2), quartile(1), quartile(3), static_cast<int>(times.size())};
}

}  // namespace volta::cli
