// The dataset of drawn digits. An example is a function of seed, split and index, so threads may
// share the dataset.
#include "volta/data/digits.h"

#include <fmt/format.h>

#include "data/digit_renderer.h"
#include "platform/parallel.h"
#include "volta/error.h"

namespace volta::data {

ImageDataset digits(Split split, DigitsOptions options) {
  constexpr std::int64_t kTrain = 60000, kTest = 10000, kMost = 10000000, kGrain = 256;
  const std::int64_t count = options.count.value_or(split == Split::train ? kTrain : kTest);
  if (count < 0 || count > kMost)
    throw ArgumentError(fmt::format("digits: count must be 0 to {}, got {}", kMost, count));
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count) * kDigitPixels),
      labels(static_cast<std::size_t>(count));
  platform::parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Random random(options.seed, static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(i));
      const auto digit = static_cast<int>(random.below(10));
      const auto at = static_cast<std::size_t>(i);
      labels[at] = static_cast<std::uint8_t>(digit);
      draw_digit(
          digit, random,
          std::span<std::uint8_t, kDigitPixels>(pixels.data() + at * kDigitPixels, kDigitPixels));
    }
  });
  return {Shape{1, kDigitSide, kDigitSide}, std::move(pixels), std::move(labels)};
}

}  // namespace volta::data
