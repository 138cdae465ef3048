// Makes a batch on the device from indices: examples are gathered, or fetched one by one and
// collated, then transformed and uploaded. The threads of a loader share one builder.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "volta/data/loader.h"

namespace volta::data {

// Stacks examples. Throws ShapeError or DTypeError naming the example that differs from the first.
Batch stack(const std::vector<Example>& examples, std::span<const std::int64_t> indices);

// An exception from a user's code on its way to the training loop, where it is rethrown unchanged.
// Its message cannot be extended, so the description of the example travels beside it.
struct ForeignError {
  std::exception_ptr error;
  std::string told;
};

struct BatchPlace {
  std::int64_t epoch;
  std::int64_t first;                     // position of the batch's first example in the epoch
  std::span<const std::int64_t> indices;  // examples of the dataset
};

class BatchBuilder {
 public:
  BatchBuilder(AnyDataset dataset, DataLoaderOptions options, std::uint64_t seed);

  // Returns equal batches for equal arguments, in any thread. Volta's errors name the example;
  // other exceptions are thrown as a ForeignError. The thread's generator keeps its state.
  Batch build(const BatchPlace& place) const;

 private:
  Random random_of(const BatchPlace& place, std::size_t i) const;
  Batch gathered(const ExampleLayout& layout, std::span<const std::int64_t> indices) const;
  // `asked` is set to the index of the example being fetched, or -1.
  Batch collated(const BatchPlace& place, std::int64_t& asked) const;
  Batch transformed(const Batch& batch, const BatchPlace& place) const;

  AnyDataset dataset_;
  DataLoaderOptions options_;
  std::uint64_t seed_;
};

}  // namespace volta::data
