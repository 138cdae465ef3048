// Fits a line through points and checks it.
//   line [device]      device: cpu, cuda:0, opencl:0 ... (default: the best one present)
#include <volta/volta.h>

#include <cmath>
#include <cstdio>

using namespace volta;

int main(int argc, char** argv) {
  const Device device = argc > 1 ? Device::parse(argv[1]) : Device::best();
  manual_seed(1);
  const Tensor x = linspace(-1, 1, 64, {.device = device}).reshape({64, 1});
  const Tensor y = 3 * x - 0.5;

  nn::Linear line(1, 1, {.device = device});
  optim::SGD optimizer(line.parameters(), {.lr = 0.5});
  for (int step = 0; step < 50; ++step) {
    optimizer.zero_grad();
    mse_loss(line(x), y).backward();
    optimizer.step();
  }
  const double slope = line.weight->item(), offset = line.bias->item();
  std::printf("Volta %s on %s: y = %.3f x %+.3f\n", version(), device.name().c_str(), slope,
              offset);
  return std::abs(slope - 3) < 1e-3 && std::abs(offset + 0.5) < 1e-3 ? 0 : 1;
}
