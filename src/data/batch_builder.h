// From indices to a batch on the device: gathered, or got one by one and collated; transformed;
// uploaded. Shared by the threads of a loader.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "volta/data/loader.h"

namespace volta::data {

// Stacks examples; throws ShapeError or DTypeError naming the example that differs from the first.
Batch stack(const std::vector<Example>& examples, std::span<const std::int64_t> indices);

class BatchBuilder {
 public:
  BatchBuilder(AnyDataset dataset, DataLoaderOptions options, std::uint64_t seed);

  // The same for equal arguments, in any thread. Errors name the example. Leaves the thread's
  // generator as it was.
  Batch build(std::span<const std::int64_t> indices, std::int64_t epoch) const;

 private:
  Batch gathered(const ExampleLayout& layout, std::span<const std::int64_t> indices) const;
  Batch collated(std::span<const std::int64_t> indices, std::int64_t epoch) const;
  Batch transformed(const Batch& batch, std::span<const std::int64_t> indices,
                    std::int64_t epoch) const;

  AnyDataset dataset_;
  DataLoaderOptions options_;
  std::uint64_t seed_;
};

}  // namespace volta::data
