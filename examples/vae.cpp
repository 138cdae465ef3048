// A variational autoencoder learns to draw new digits, which a classifier then reads.
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>

#include "options.h"
#include "read_digits.h"

using namespace volta;

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"epochs", "10"}, {"count", "60000"}});
  const Device device = options.device();
  manual_seed(6);

  const auto digits = data::digits(data::Split::train, {.count = options.number("count")});
  data::DataLoader train(digits, {.batch_size = 128, .shuffle = true, .device = device});
  models::VAE model(28 * 28, {.device = device});
  optim::Adam opt(model.parameters(), {.lr = 1e-3});
  for (int epoch = 1; epoch <= options.number("epochs"); ++epoch) {
    Tensor total = zeros({}, {.device = device});
    for (auto [x, y] : train) {
      opt.zero_grad();
      Tensor loss = models::vae_loss(model(x), x);
      loss.backward();
      opt.step();
      total += loss.detach();
    }
    std::printf("epoch %2d  loss %.2f\n", epoch, total.item() / static_cast<double>(train.size()));
  }

  // Shows reconstructions of new digits, and digits from noise.
  NoGrad no_grad;
  model.eval();
  data::DataLoader test(data::digits(data::Split::test, {.count = 1000}),
                        {.batch_size = 1000, .device = device});
  const Tensor x = test.begin()->x;
  std::printf("reconstruction error %.4f\n", mse_loss(model.forward(x), x.flatten(1)).item());
  const Tensor samples = model.sample(64).reshape({64, 1, 28, 28});
  print_digits(samples, 8);
  report(read_digits(samples, digits, device));
}
