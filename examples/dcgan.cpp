// Two networks compete: one draws digits, the other tells them from real ones. A classifier then
// reads the drawn digits.
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>

#include "options.h"
#include "read_digits.h"

using namespace volta;

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "4000"}, {"features", "32"}, {"count", "60000"}});
  const Device device = options.device();
  manual_seed(8);

  const auto digits = data::digits(data::Split::train, {.count = options.number("count")});
  data::DataLoader train(digits,
                         {.batch_size = 64, .shuffle = true, .drop_last = true, .device = device});
  const models::DCGANOptions shape{
      .latent = 64, .features = options.number("features"), .device = device};
  models::DCGANGenerator generator(shape);
  models::DCGANDiscriminator discriminator(shape);
  optim::Adam draws(generator.parameters(), {.lr = 5e-4, .betas = {0.5, 0.999}});
  optim::Adam judges(discriminator.parameters(), {.lr = 2e-4, .betas = {0.5, 0.999}});

  const auto says = [&](const Tensor& images, double target) {
    const Tensor logits = discriminator(images);
    return binary_cross_entropy_with_logits(logits, full_like(logits, target));
  };
  int step = 0;
  const int steps = options.number("steps");
  while (step < steps) {
    for (auto [x, y] : train) {
      const Tensor fake = generator.sample(64);
      judges.zero_grad();
      Tensor judged = says(x * 2 - 1, 0.9) + says(fake.detach(), 0);
      judged.backward();
      judges.step();
      draws.zero_grad();
      Tensor fooled = says(fake, 1);
      fooled.backward();
      draws.step();
      if (step % 200 == 0) {
        std::printf("step %5d  discriminator %.3f  generator %.3f\n", step, judged.item(),
                    fooled.item());
      }
      if (++step == steps) break;
    }
  }

  NoGrad no_grad;
  generator.eval();
  const Tensor samples = (generator.sample(128) + 1) * 0.5f;
  print_digits(samples, 8);
  report(read_digits(samples, digits, device));
}
