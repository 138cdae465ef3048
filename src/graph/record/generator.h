// Draws from random generators. Their positions can be saved and restored, so that a section of a
// program can be repeated with the same random numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "volta/generator.h"

namespace volta::graph {

// The state that all handles of a generator share.
struct RandomStream {
  std::mutex lock;
  GeneratorState state;

  // Null for the thread's own generator.
  static const std::shared_ptr<RandomStream>& of(const Generator& generator) {
    return generator.stream_;
  }
};

GeneratorState& random_state();  // of this thread's own generator

// Returns the generator's state, then advances the generator by enough blocks for `words` words.
GeneratorState take_random(std::int64_t words, const Generator& generator);

// A stream and its state at an earlier time.
struct StreamPosition {
  std::shared_ptr<RandomStream> stream;
  GeneratorState state;
};

// While alive, saves the state of each generator, except the thread's own, before this thread first
// draws from it.
class DrawnFrom {
 public:
  DrawnFrom();
  ~DrawnFrom();
  DrawnFrom(const DrawnFrom&) = delete;
  DrawnFrom& operator=(const DrawnFrom&) = delete;

  std::vector<StreamPosition> streams;

 private:
  friend GeneratorState take_random(std::int64_t words, const Generator& generator);
  DrawnFrom* outer_;
};

// While alive, generators have the given states; the destructor restores the earlier ones.
class Repositioned {
 public:
  Repositioned(GeneratorState own, const std::vector<StreamPosition>& streams);
  ~Repositioned();
  Repositioned(const Repositioned&) = delete;
  Repositioned& operator=(const Repositioned&) = delete;

 private:
  GeneratorState own_;
  std::vector<StreamPosition> streams_;
};

}  // namespace volta::graph
