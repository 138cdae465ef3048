// Measures the memory of a process that trains small networks with batches of random sizes and
// lengths. Every EVERY steps it prints the resident memory, the pool, and the caches of plans,
// kernels and libraries.
//   memory_growth mlp|block|lstm STEPS SIZES EVERY [DEVICE]
// SIZES is the number of different batch sizes (mlp) or lengths (block, lstm).
#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/runner.h"
#include "volta/volta.h"

namespace {

using namespace volta;  // NOLINT(google-build-using-namespace)

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void print(int step, Device device) {
  synchronize(device);
  const MemoryStats memory = memory_stats(device);
  const plan::CacheStats caches = plan::cache_stats(device);
  std::printf(
      "%7d  resident %7.1f  heap %7.1f  in use %7.3f  reserved %6.1f  plans %4zu: %7.2f, on the "
      "device %6.2f  groupings %3zu: %5.2f  kernels %4zu: %6.2f  libraries %7.2f\n",
      step, mib(resident_bytes()), mib(mallinfo2().uordblks + mallinfo2().hblkhd),
      mib(memory.in_use), mib(memory.reserved), caches.plans, mib(memory.plan_bytes),
      mib(memory.plan_device_bytes), caches.groupings, mib(memory.grouping_bytes), caches.programs,
      mib(memory.kernel_bytes), mib(memory.library_bytes));
  std::fflush(stdout);
}

class Network {
 public:
  virtual ~Network() = default;
  virtual nn::Module& module() = 0;
  virtual Tensor loss(std::mt19937& random, int sizes, Device device) = 0;
};

std::vector<float> some_numbers(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count), 0.1f);
}

class Mlp final : public Network {
 public:
  nn::Module& module() override { return layers_; }
  Tensor loss(std::mt19937& random, int sizes, Device device) override {
    const std::int64_t rows =
        1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(sizes));
    const Tensor x = from_vector(some_numbers(rows * 8), {.device = device}).reshape({rows, 8});
    return (layers_(x) - 1).square().mean();
  }

 private:
  nn::Sequential layers_{nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 4)};
};

class Block final : public Network {
 public:
  nn::Module& module() override { return layer_; }
  Tensor loss(std::mt19937& random, int sizes, Device device) override {
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 8),
                       length =
                           1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(sizes));
    const Tensor x = from_vector(some_numbers(rows * length * 16), {.device = device})
                         .reshape({rows, length, 16});
    return (layer_(x) - 1).square().mean();
  }

 private:
  nn::TransformerEncoderLayer layer_{16, 2, {.dim_feedforward = 32, .dropout = 0}};
};

class Recurrent final : public Network {
 public:
  nn::Module& module() override { return lstm_; }
  Tensor loss(std::mt19937& random, int sizes, Device device) override {
    const std::int64_t length =
        1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(sizes));
    const Tensor x =
        from_vector(some_numbers(length * 32), {.device = device}).reshape({length, 4, 8});
    return lstm_(x).output.square().mean();
  }

 private:
  nn::LSTM lstm_{8, 16};
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "memory_growth mlp|block|lstm STEPS SIZES EVERY [DEVICE]\n");
    return 2;
  }
  const std::string kind = arguments[1];
  const int steps = std::atoi(arguments[2]), sizes = std::atoi(arguments[3]),
            every = std::atoi(arguments[4]);
  const Device device = count > 5 ? Device::parse(arguments[5]) : Device::cpu();
  std::unique_ptr<Network> network;
  if (kind == "mlp") network = std::make_unique<Mlp>();
  if (kind == "block") network = std::make_unique<Block>();
  if (kind == "lstm") network = std::make_unique<Recurrent>();
  if (network == nullptr || sizes < 1 || every < 1) return 2;
  network->module().to(device);
  optim::Adam optimizer(network->module().parameters(), {.lr = 1e-3});
  std::mt19937 random(1);
  for (int step = 0; step <= steps; ++step) {
    if (step % every == 0) print(step, device);
    optimizer.zero_grad();
    const Tensor loss = network->loss(random, sizes, device);
    loss.backward();
    optimizer.step();
    if (step % 10 == 0) loss.item();
  }
  empty_cache(device);
  std::printf("after empty_cache\n");
  print(steps, device);
}
