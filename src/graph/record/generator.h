// Drawing from generators, and remembering what was drawn from so that a stretch of a program can
// be repeated.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "volta/generator.h"

namespace volta::graph {

// What the handles of a generator share.
struct RandomStream {
  std::mutex lock;
  GeneratorState state;

  // Null for the thread's own.
  static const std::shared_ptr<RandomStream>& of(const Generator& generator) {
    return generator.stream_;
  }
};

GeneratorState& random_state();  // of this thread's own generator

// Where the generator stands, which then goes on by the blocks that hold `words` words.
GeneratorState take_random(std::int64_t words, const Generator& generator);

// A stream and where it stood.
struct StreamPosition {
  std::shared_ptr<RandomStream> stream;
  GeneratorState state;
};

// While alive, notes where each generator (but the thread's own) stood when this thread first drew
// from it.
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

// While alive, generators stand where they are told to; then again where they stood before.
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
