// Random: the small generator that data is shuffled, augmented and drawn with. Integer arithmetic
// only: the same numbers on every machine.
#pragma once

#include <cstdint>

#include "volta/export.h"

namespace volta::data {

// Numbers of a key: equal keys give equal numbers, different ones unrelated numbers.
class VOLTA_API Random {
 public:
  explicit Random(std::uint64_t key) : state_(mixed(key)) {}
  Random(std::uint64_t a, std::uint64_t b) : state_(mixed(mixed(a) + b)) {}
  Random(std::uint64_t a, std::uint64_t b, std::uint64_t c)
      : state_(mixed(mixed(mixed(a) + b) + c)) {}
  Random(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d)
      : state_(mixed(mixed(mixed(mixed(a) + b) + c) + d)) {}
  // Keyed by where the calling thread's generator stands, which goes on by one block: manual_seed()
  // decides these numbers too.
  static Random of_thread();

  std::uint64_t next() {  // SplitMix64
    state_ += kStep;
    return finished(state_);
  }
  // In [0, bound), all equally likely; the bound is at least 1.
  std::uint64_t below(std::uint64_t bound) {
    for (;;) {  // the remainders of the last, incomplete run of `bound` numbers are drawn again
      const std::uint64_t number = next(), remainder = number % bound;
      if (number - remainder <= ~std::uint64_t{0} - (bound - 1)) return remainder;
    }
  }
  // In [0, 1), [low, high): a multiple of 2^-24.
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
