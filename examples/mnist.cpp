// A convolutional network on MNIST's files. Without a folder it uses digits that Volta draws.
//   mnist --folder data/mnist
//   mnist --folder data/mnist --train digits      trains on drawn digits, tests on MNIST's
//   mnist --model linear                          trains a single linear layer
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "options.h"

using namespace volta;

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"folder", ""},
                         {"train", "folder"},
                         {"model", "lenet"},
                         {"epochs", "5"},
                         {"count", "60000"}});
  const Device device = options.device();
  manual_seed(1);

  const std::string folder = options.text("folder");
  data::AnyDataset train = data::digits(data::Split::train, {.count = options.number("count")});
  data::AnyDataset test = data::digits(data::Split::test, {.count = options.number("count") / 6});
  if (!folder.empty()) {
    // If the folder has only the test set's 10,000 images, a tenth of them is used for testing.
    test = data::mnist(folder, data::Split::test);
    const bool both = std::filesystem::exists(folder + "/train-images-idx3-ubyte") ||
                      std::filesystem::exists(folder + "/train-images-idx3-ubyte.gz");
    if (options.text("train") == "digits") {
      // Trains on drawn digits and tests on all of MNIST's test images.
    } else if (both) {
      train = data::mnist(folder, data::Split::train);
    } else {
      auto parts = data::random_split(test, std::vector<double>{0.9, 0.1});
      train = parts[0];
      test = parts[1];
    }
  }
  const auto shift = data::random_affine({.degrees = 8, .translate = 0.08});
  data::DataLoader loader(
      train, {.batch_size = 64, .shuffle = true, .device = device, .transform = shift});
  data::DataLoader checks(test, {.batch_size = 250, .device = device});

  nn::Sequential model;
  if (options.text("model") == "linear") {
    model.append(nn::Flatten()).append(nn::Linear(28 * 28, 10));
  } else {
    model.append(models::LeNet());
  }
  model.to(device);
  std::cout << model.summary({1, 1, 28, 28});
  const int epochs = options.number("epochs");
  optim::AdamW opt(model.parameters(), {.lr = 2e-3});
  optim::OneCycleLR schedule(opt, {.max_lr = 4e-3, .total_steps = epochs * loader.size()});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    model.train();
    for (auto [x, y] : progress(loader, "epoch " + std::to_string(epoch))) {
      opt.zero_grad();
      cross_entropy(model(x), y).backward();
      opt.step();
      schedule.step();
    }
    model.eval();
    NoGrad no_grad;
    std::int64_t right = 0, seen = 0;
    for (auto [x, y] : checks) {
      right += model(x).argmax(1).eq(y).sum().item<std::int64_t>();
      seen += y.numel();
    }
    std::printf("epoch %d  test accuracy %.2f%%\n", epoch,
                100.0 * static_cast<double>(right) / static_cast<double>(seen));
  }
}
