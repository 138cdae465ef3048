// The functions that the fuzzers of data readers call: any bytes are either read or give a
// volta::Error. tests/data/corpora_test.cpp calls them with the corpora and with changed corpora.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "volta/data/csv.h"
#include "volta/data/idx.h"
#include "volta/data/images.h"
#include "volta/error.h"

namespace volta::fuzz {

// Whether the bytes could be read.
template <class Read>
bool reads(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

inline bool idx(std::span<const std::byte> file) {
  return reads([&] { data::parse_idx(file, "fuzz.idx"); });
}

inline bool cifar(std::span<const std::byte> file) {
  return reads([&] { data::parse_cifar10(file, "fuzz.bin"); });
}

inline bool csv(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const bool plain = reads([&] { data::parse_csv(text, "fuzz.csv"); });
  reads([&] {
    data::parse_csv(text, "fuzz.csv", {.header = false, .labels = {"0"}, .label_names = true});
  });
  return plain;
}

inline bool image(std::span<const std::byte> file) {
  reads([&] {
    data::parse_image(file, "fuzz.png",
                      {.channels = 1, .height = 5, .width = 3, .max_pixels = 1 << 20});
  });
  return reads([&] { data::parse_image(file, "fuzz.png", {.max_pixels = 1 << 20}); });
}

}  // namespace volta::fuzz
