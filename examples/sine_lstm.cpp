// An LSTM learns sine waves of any phase and continues them: it predicts each value from those
// before.
#include <volta/volta.h>

#include <cstdio>
#include <numbers>

#include "options.h"

using namespace volta;

namespace {

struct Forecast : nn::Module {
  nn::LSTM lstm{1, 32, {.batch_first = true}};
  nn::Linear out{32, 1};

  Forecast() {
    add("lstm", lstm);
    add("out", out);
  }
  Tensor forward(const Tensor& x) override { return out(lstm(x).output); }
};

// Waves of random phase and wavelength, [count, length + 1, 1].
Tensor waves(std::int64_t count, std::int64_t length, Device device) {
  const Tensor phase = uniform({count, 1}, 0, 2 * std::numbers::pi, {.device = device});
  const Tensor speed = uniform({count, 1}, 0.15, 0.45, {.device = device});
  const Tensor time = arange(length + 1, {.dtype = DType::f32, .device = device});
  return (time * speed + phase).sin().unsqueeze(2);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "600"}});
  const Device device = options.device();
  const std::int64_t length = 40;
  manual_seed(5);

  Forecast model;
  model.to(device);
  optim::Adam opt(model.parameters(), {.lr = 1e-2});
  const int steps = options.number("steps");
  optim::CosineLR schedule(opt, {.total_steps = steps});
  for (int step = 0; step < steps; ++step) {
    const Tensor all = waves(64, length, device);
    opt.zero_grad();
    Tensor loss = mse_loss(model(all.narrow(1, 0, length)), all.narrow(1, 1, length));
    loss.backward();
    nn::clip_grad_norm(model.parameters(), 1.0);
    opt.step();
    schedule.step();
    if (step % 100 == 0) std::printf("step %4d  loss %.6f\n", step, loss.item());
  }

  // The waves are new; their first values determine phase and wavelength.
  NoGrad no_grad;
  const std::int64_t known = 10;
  const Tensor fresh = waves(256, length, device);
  const Tensor guess = model(fresh.narrow(1, 0, length)).narrow(1, known, length - known);
  const double error = mse_loss(guess, fresh.narrow(1, known + 1, length - known)).item();
  std::printf("mean squared error %.6f\n", error);
}
