// Random: a small generator for shuffling, augmentation and drawing of data. It uses integer
// arithmetic only, so its numbers are the same on every machine.
#pragma once

#include <cstdint>

#include "volta/export.h"

namespace volta::data {

// Random numbers from a key: equal keys give equal numbers, different keys unrelated ones.
class VOLTA_API Random {
 public:
  explicit Random(std::uint64_t key) : state_(mixed(key)) {}
  Random(std::uint64_t a, std::uint64_t b) : state_(mixed(mixed(a) + b)) {}
  Random(std::uint64_t a, std::uint64_t b, std::uint64_t c)
      : state_(mixed(mixed(mixed(a) + b) + c)) {}
  Random(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d)
      : state_(mixed(mixed(mixed(mixed(a) + b) + c) + d)) {}
  // Takes the key from the calling thread's generator, which advances by one block, so
  // manual_seed() makes these numbers reproducible too.
  static Random of_thread();

  std::uint64_t next() {  // SplitMix64
    state_ += kStep;
    return finished(state_);
  }
  // Uniform in [0, bound), for a bound of at least 1.
  std::uint64_t below(std::uint64_t bound) {
    for (;;) {  // draws again in the last, incomplete range of `bound` numbers, to stay uniform
      const std::uint64_t number = next(), remainder = number % bound;
      if (number - remainder <= ~std::uint64_t{0} - (bound - 1)) return remainder;
    }
  }
  // Uniform in [0, 1) or [low, high), from multiples of 2^-24.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  bool chance(float probability) { return uniform() < probability; }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;
  static std::uint64_t finished(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  static std::uint64_t mixed(std::uint64_t key) { return finished(key + kStep); }

  std::uint64_t state_;
};

}  // namespace volta::data
