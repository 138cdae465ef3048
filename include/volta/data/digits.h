// Handwritten-looking digits, made when asked for: something to learn with nothing to download.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/data/dataset.h"
#include "volta/export.h"

namespace volta::data {

struct DigitsOptions {
  std::optional<std::int64_t> count = std::nullopt;  // 60,000 to train, 10,000 to test
  std::uint64_t seed = 0;
};

// Images [1, 28, 28] of the digits 0 to 9, written by strokes with all that a hand varies, and
// normalised as MNIST's are. Equal options give equal bytes on every machine, and fewer images are
// the first of more.
VOLTA_API ImageDataset digits(Split split, DigitsOptions options = {});

}  // namespace volta::data
