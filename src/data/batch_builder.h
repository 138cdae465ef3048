// From indices to a batch on the device: gathered, or got one by one and collated; transformed;
// uploaded. Shared by the threads of a loader.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "volta/data/loader.h"

namespace volta::data {

// Stacks examples; throws ShapeError or DTypeError naming the example that differs from the first.
Batch stack(const std::vector<Example>& examples, std::span<const std::int64_t> indices);

// What a user's code threw on its way to the loop, where it is thrown again as it was: its message
// cannot be changed, so where it was thrown travels beside it.
struct ForeignError {
  std::exception_ptr error;
  std::string told;
};

// A batch of an epoch.
struct BatchPlace {
  std::int64_t epoch;
  std::int64_t first;                     // position of its first example in the epoch
  std::span<const std::int64_t> indices;  // of the dataset
};

class BatchBuilder {
 public:
  BatchBuilder(AnyDataset dataset, DataLoaderOptions options, std::uint64_t seed);

  // The same for equal arguments, in any thread. Volta's errors name the example, others come as a
  // ForeignError. Leaves the thread's generator as it was.
  Batch build(const BatchPlace& place) const;

 private:
  Random random_of(const BatchPlace& place, std::size_t i) const;
  Batch gathered(const ExampleLayout& layout, std::span<const std::int64_t> indices) const;
  // `asked` is the example that is being asked for, or -1.
  Batch collated(const BatchPlace& place, std::int64_t& asked) const;
  Batch transformed(const Batch& batch, const BatchPlace& place) const;

  AnyDataset dataset_;
  DataLoaderOptions options_;
  std::uint64_t seed_;
};

}  // namespace volta::data
