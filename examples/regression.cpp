// Regression: a small network learns a curve from noisy points.
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>

#include "options.h"

using namespace volta;

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "2000"}});
  const Device device = options.device();
  manual_seed(1);

  const auto curve = [](const Tensor& x) { return (x * 3).sin() * 0.5f + x * x * 0.3f; };
  Tensor x = uniform({512, 1}, -2, 2, {.device = device});
  Tensor y = curve(x) + randn({512, 1}, {.device = device}) * 0.05f;

  models::MLP model({1, 64, 64, 1}, {.activation = models::Activation::tanh, .device = device});
  optim::Adam opt(model.parameters(), {.lr = 5e-3});
  optim::CosineLR schedule(opt, {.total_steps = options.number("steps")});
  for (int step = 0; step < options.number("steps"); ++step) {
    opt.zero_grad();
    Tensor loss = mse_loss(model(x), y);
    loss.backward();
    opt.step();
    schedule.step();
    if (step % 500 == 0) std::printf("step %4d  loss %.5f\n", step, loss.item());
  }

  // The test points are new and without noise.
  NoGrad no_grad;
  Tensor grid = linspace(-2, 2, 200, {.device = device}).reshape({200, 1});
  std::printf("mean squared error %.6f\n", mse_loss(model(grid), curve(grid)).item());
}
