// Generator: where random numbers come from. Numbers are a function of a seed and a position, the
// same on every device (Philox4x32-10).
#pragma once

#include <cstdint>
#include <memory>

#include "volta/export.h"

namespace volta {

namespace graph {
struct RandomStream;
}

// Where a stream of random numbers stands: a seed, and how many blocks of four 32-bit words were
// drawn.
struct GeneratorState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};

// A stream of random numbers to draw from:
//   Generator numbers(42);
//   Tensor x = randn({64, 10}, {.generator = numbers});
// A shared handle: copies draw from one stream. May be used by several threads; which of them gets
// which numbers is then up to chance.
//
// A draw of n elements takes the next w n words of the stream, element i (in row order) the words
// w i to w i + w - 1, where w is 1 for rand, uniform, bernoulli, dropout and short ranges of
// randint, 2 for randn and randint over more than 4096 integers. Its numbers thus depend on seed,
// position and i, not on shape, device or threads. The next draw starts at the next multiple of
// four words: draws that take multiples of four words continue each other, so that rand({64, 10})
// gives the rows of two rand({32, 10}).
class VOLTA_API Generator {
 public:
  Generator() = default;  // the calling thread's own, which manual_seed() seeds
  explicit Generator(std::uint64_t seed);

  void manual_seed(std::uint64_t seed) const;  // starts the stream of the seed
  std::uint64_t seed() const { return state().seed; }
  GeneratorState state() const;
  void set_state(GeneratorState state) const;
  Generator clone() const;  // a stream of its own that stands where this one does

  friend bool operator==(const Generator&, const Generator&) = default;  // the same stream

 private:
  friend struct graph::RandomStream;
  std::shared_ptr<graph::RandomStream> stream_;  // null: the thread's own
};

}  // namespace volta
