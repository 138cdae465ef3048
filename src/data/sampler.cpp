// Weighted sampling by binary search in cumulative sums.
#include "volta/data/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "volta/data/random.h"
#include "volta/detail/require_range.h"
#include "volta/error.h"

namespace volta::data {

Sampler::~Sampler() = default;

WeightedSampler::WeightedSampler(const std::vector<double>& weights, std::int64_t count)
    : count_(count) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;  // the order of an epoch is a list of them
  detail::require_range("WeightedSampler", "count", count, 0, kMost);
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || std::isinf(weight))
      throw ArgumentError(fmt::format("WeightedSampler: a weight of {}", weight));
    sums_.push_back(sum += weight);
  }
  if (!(sum > 0)) throw ArgumentError("WeightedSampler: all weights are 0");
}

std::vector<std::int64_t> WeightedSampler::order(std::uint64_t seed, std::int64_t epoch) const {
  Random random(seed, static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count_));
  for (std::int64_t& index : indices) {
    const double at = static_cast<double>(random.next() >> 11) * 0x1p-53 * sums_.back();
    // The first sum above `at` is never that of an example of weight 0, whose sum equals the
    // previous one.
    index = std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin();
    if (index == static_cast<std::int64_t>(sums_.size())) {  // `at` was rounded up to the total
      index = std::lower_bound(sums_.begin(), sums_.end(), sums_.back()) - sums_.begin();
    }
  }
  return indices;
}

}  // namespace volta::data
