// Judges images of digits by a classifier that was trained on digits.
#pragma once

#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>
#include <set>

struct Reading {
  double confidence = 0;  // mean confidence in the most likely digit
  int classes = 0;        // number of digits read with a confidence of at least 0.8
};

inline Reading read_digits(const volta::Tensor& images, const volta::data::ImageDataset& digits,
                           volta::Device device) {
  using namespace volta;
  const EnableGrad grad;
  models::LeNet reader({.device = device});
  optim::Adam opt(reader.parameters(), {.lr = 2e-3});
  data::DataLoader loader(digits, {.batch_size = 64, .shuffle = true, .device = device});
  int steps = 0;
  for (auto [x, y] : loader) {
    opt.zero_grad();
    cross_entropy(reader(x), y).backward();
    opt.step();
    if (++steps == 400) break;
  }
  NoGrad no_grad;
  const Tensor shares = reader(images.detach()).softmax(1);
  const std::vector<float> confidence = shares.max(1).to_vector<float>();
  const std::vector<std::int64_t> read = shares.argmax(1).to_vector<std::int64_t>();
  std::set<std::int64_t> classes;
  Reading result;
  for (std::size_t i = 0; i < read.size(); ++i) {
    result.confidence += confidence[i] / static_cast<double>(read.size());
    if (confidence[i] >= 0.8f) classes.insert(read[i]);
  }
  result.classes = static_cast<int>(classes.size());
  return result;
}

inline void report(const Reading& reading) {
  std::printf("read with confidence %.3f as %d classes\n", reading.confidence, reading.classes);
}

// Prints the first `columns` images of [n, 1, 28, 28] side by side as text.
inline void print_digits(const volta::Tensor& images, int columns) {
  const std::vector<float> pixels = images.to_vector<float>();
  for (std::size_t y = 0; y < 28; y += 2) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(columns); ++i) {
      for (std::size_t x = 0; x < 28; ++x) {
        const float* at = pixels.data() + (i * 28 + y) * 28 + x;
        std::putchar(" .:-=+*#%@"[static_cast<int>((at[0] + at[28]) / 2 * 9.99f)]);
      }
    }
    std::putchar('\n');
  }
}
