// The same training on the CPU and on a GPU: a model moves with all its tensors, and small networks
// are faster on the CPU.
#include <volta/models.h>
#include <volta/volta.h>

#include <chrono>
#include <cstdio>

#include "options.h"

using namespace volta;

namespace {

// Milliseconds per training step, after the first steps, which plan and compile.
double milliseconds(models::MLP& model, std::int64_t width, std::int64_t batch, Device device) {
  optim::SGD opt(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  Tensor x = randn({batch, width}, {.device = device});
  Tensor y = randn({batch, 10}, {.device = device});
  const auto step = [&] {
    opt.zero_grad();
    Tensor loss = mse_loss(model(x), y);
    loss.backward();
    opt.step();
    return loss;
  };
  for (int i = 0; i < 5; ++i) step().item();
  int steps = 0;
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double, std::milli> passed{};
  Tensor loss;
  do {
    for (int i = 0; i < 5; ++i, ++steps) loss = step();
    loss.item();  // waits for the device
    passed = std::chrono::steady_clock::now() - start;
  } while (passed.count() < 200);
  return passed.count() / steps;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "50"}, {"widths", "3"}});
  const Device device = options.device();
  std::printf("%s (%s) beside the CPU\n", to_string(device).c_str(), device.name().c_str());

  // A model moves in place, and an optimizer made before follows it.
  manual_seed(3);
  models::MLP model({8, 32, 10});
  optim::Adam opt(model.parameters(), {.lr = 0.01});
  Tensor x = randn({64, 8}), y = randn({64, 10});
  const auto train = [&] {
    opt.zero_grad();
    Tensor loss = mse_loss(model(x.to(model.device())), y.to(model.device()));
    loss.backward();
    opt.step();
    return loss.item();
  };
  double before = 0, after = 0;
  const int steps = options.number("steps");
  for (int i = 0; i < steps; ++i) before = train();
  model.to(device);
  for (int i = 0; i < steps; ++i) after = train();
  std::printf("loss %.4f on the CPU, then %.4f on %s\n", before, after,
              to_string(model.device()).c_str());

  std::puts("  width  batch     cpu ms  device ms  faster");
  std::int64_t width = 32, batch = 32;
  for (int i = 0; i < options.number("widths"); ++i, width *= 4, batch *= 4) {
    models::MLP here({width, width, width, 10}), there({width, width, width, 10});
    there.to(device);
    const double cpu = milliseconds(here, width, batch, Device::cpu());
    const double other = milliseconds(there, width, batch, device);
    std::printf("%7lld %6lld %10.3f %10.3f  %s %.1fx\n", static_cast<long long>(width),
                static_cast<long long>(batch), cpu, other, cpu < other ? "the CPU" : "the device",
                cpu < other ? other / cpu : cpu / other);
  }
}
