// Images that look like handwritten digits, generated on demand: training data without a download.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/data/dataset.h"
#include "volta/export.h"

namespace volta::data {

struct DigitsOptions {
  // The number of digits; the default is 60,000 for training and 10,000 for testing.
  std::optional<std::int64_t> count = std::nullopt;
  std::uint64_t seed = 0;
};

// Images [1, 28, 28] of the digits 0 to 9, drawn by strokes with the variations of handwriting and
// normalised like MNIST's. Equal options give equal bytes on every machine, and a smaller count
// gives the first images of a larger one.
VOLTA_API ImageDataset digits(Split split, DigitsOptions options = {});

}  // namespace volta::data
