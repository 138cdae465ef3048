// Trains a network that computes XOR and checks it.
//   xor [device]      device: cpu, cuda:0, opencl:0 ... (default: the best one present)
#include <volta/volta.h>

#include <cstdio>

using namespace volta;

int main(int argc, char** argv) {
  const Device device = argc > 1 ? Device::parse(argv[1]) : Device::best();
  manual_seed(42);
  nn::Sequential model({
      {"hidden", nn::Linear(2, 8)},
      {"tanh", nn::Tanh()},
      {"output", nn::Linear(8, 1)},
  });
  model.to(device);
  const Tensor x = tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, {.device = device});
  const Tensor y = tensor({0, 1, 1, 0}, {4, 1}, {.device = device});

  optim::Adam optimizer(model.parameters(), {.lr = 0.05});
  double loss = 1;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    Tensor error = mse_loss(model(x), y);
    error.backward();
    optimizer.step();
    loss = error.item();
  }
  std::printf("Volta %s on %s: loss %.5f\n", version(), device.name().c_str(), loss);
  return loss < 0.01 ? 0 : 1;
}
