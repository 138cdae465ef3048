// Samplers: which examples an epoch has, and in which order.
#pragma once

#include <cstdint>
#include <vector>

#include "volta/export.h"

namespace volta::data {

// Derive from it for your own order. Equal arguments must give equal orders, so that a resumed
// epoch continues correctly.
class VOLTA_API Sampler {
 public:
  virtual ~Sampler();
  virtual std::int64_t size() const = 0;  // number of examples per epoch
  virtual std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const = 0;

 protected:
  Sampler() = default;
  Sampler(const Sampler&) = default;
  Sampler& operator=(const Sampler&) = default;
};

// Draws `count` examples with replacement, with probabilities proportional to their weights.
class VOLTA_API WeightedSampler : public Sampler {
 public:
  WeightedSampler(const std::vector<double>& weights, std::int64_t count);
  std::int64_t size() const override { return count_; }
  std::vector<std::int64_t> order(std::uint64_t seed, std::int64_t epoch) const override;

 private:
  std::vector<double> sums_;
  std::int64_t count_;
};

}  // namespace volta::data
