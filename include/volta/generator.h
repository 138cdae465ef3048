// Generator: the source of random numbers. Numbers are a function of a seed and a position, the
// same on every device (Philox4x32-10).
#pragma once

#include <cstdint>
#include <memory>

#include "volta/export.h"

namespace volta {

namespace graph {
struct RandomStream;
}

// The position in a stream of random numbers: a seed, and the number of blocks of four 32-bit words
// that were drawn.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

// A stream of random numbers:
//   Generator numbers(42);
//   Tensor x = randn({64, 10}, {.generator = numbers});
// A generator is a shared handle: copies draw from one stream. Several threads may use it; which of
// them gets which numbers is then not determined.
//
// A draw of n elements takes the next w n words of the stream; element i, in row order, takes the
// words w i to w i + w - 1. Here w is 1 for rand, uniform, bernoulli, dropout and short ranges of
// randint, and 2 for randn and randint over more than 4096 integers. The numbers thus depend on
// seed, position and i, not on shape, device or threads. The next draw starts at the next multiple
// of four words. Draws of multiples of four words therefore continue each other: rand({64, 10})
// gives the rows of two rand({32, 10}).
class VOLTA_API Generator {
 public:
  Generator() = default;  // the calling thread's generator, which manual_seed() seeds
  explicit Generator(std::uint64_t seed);

  void manual_seed(std::uint64_t seed) const;  // restarts the stream with this seed
  std::uint64_t seed() const { return state().seed; }
  GeneratorState state() const;
  void set_state(GeneratorState state) const;
  Generator clone() const;  // an independent stream at the same position

  friend bool operator==(const Generator&, const Generator&) = default;  // the same stream

 private:
  friend struct graph::RandomStream;
  std::shared_ptr<graph::RandomStream> stream_;  // null for the calling thread's stream
};

}  // namespace volta
