// Trains ResNet-18 on the binary version of CIFAR-10 with the usual crops and flips. Without a
// folder it learns coloured digits, which Volta draws.
//   cifar_resnet --folder data/cifar-10-batches-bin
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>

#include "options.h"

using namespace volta;

namespace {

// Digits in a random colour on a background of another colour, 3x32x32; the label is the digit.
data::ImageDataset coloured(const data::ImageDataset& digits) {
  std::vector<std::uint8_t> pixels;
  data::Random random(5);
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    const auto image = digits.pixels().subspan(static_cast<std::size_t>(i) * 28 * 28, 28 * 28);
    for (int channel = 0; channel < 3; ++channel) {
      const double paper = random.uniform(), ink = paper < 0.5 ? paper + 0.5 : paper - 0.5;
      for (int y = -2; y < 30; ++y) {
        for (int x = -2; x < 30; ++x) {
          const bool inside = y >= 0 && y < 28 && x >= 0 && x < 28;
          const double black = inside ? image[static_cast<std::size_t>(y * 28 + x)] / 255.0 : 0;
          pixels.push_back(static_cast<std::uint8_t>(255 * (paper + (ink - paper) * black)));
        }
      }
    }
  }
  return data::ImageDataset({3, 32, 32}, std::move(pixels),
                            {digits.labels().begin(), digits.labels().end()});
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"folder", ""},
                         {"epochs", "20"},
                         {"batch", "128"},
                         {"depth", "2"},
                         {"width", "64"},
                         {"count", "20000"}});
  const Device device = options.device();
  const std::string folder = options.text("folder");
  manual_seed(2);

  const auto read = [&](data::Split split) {
    if (!folder.empty()) return data::cifar10(folder, split);
    const std::int64_t count = options.number("count");
    return coloured(
        data::digits(split, {.count = split == data::Split::train ? count : count / 5}));
  };
  const data::ImageDataset images = read(data::Split::train);
  const auto normal = data::normalize({0.4914, 0.4822, 0.4465}, {0.247, 0.2435, 0.2616});
  std::vector<data::Transform> changes{data::random_crop(32, 32, {.padding = 4})};
  if (!folder.empty()) changes.push_back(data::random_horizontal_flip());
  changes.push_back(normal);
  data::DataLoader train(images, {.batch_size = options.number("batch"),
                                  .shuffle = true,
                                  .drop_last = true,
                                  .workers = 2,
                                  .device = device,
                                  .transform = data::compose(changes)});
  data::DataLoader test(read(data::Split::test),
                        {.batch_size = 250, .device = device, .transform = normal});

  const int depth = options.number("depth");
  models::ResNet model(
      models::ResNet::Block::basic, {depth, depth, depth, depth},
      {.classes = 10, .width = options.number("width"), .small_images = true, .device = device});
  const int epochs = options.number("epochs");
  optim::SGD opt(model.parameters(),
                 {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  optim::OneCycleLR schedule(opt, {.max_lr = 0.1, .total_steps = epochs * train.size()});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    model.train();
    for (auto [x, y] : progress(train, "epoch " + std::to_string(epoch))) {
      Autocast amp(device.is_gpu() ? DType::bf16 : DType::f32);
      opt.zero_grad();
      cross_entropy(model(x), y, {.label_smoothing = 0.1}).backward();
      opt.step();
      schedule.step();
    }
    model.eval();
    NoGrad no_grad;
    std::int64_t right = 0, seen = 0;
    for (auto [x, y] : test) {
      right += model(x).argmax(1).eq(y).sum().item<std::int64_t>();
      seen += y.numel();
    }
    std::printf("epoch %d  test accuracy %.2f%%\n", epoch,
                100.0 * static_cast<double>(right) / static_cast<double>(seen));
  }
}
