// Where a kernel computes and loads values: index expressions and masks, each kept once and named
// by its number, so that values computed element by element hand them on without copying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/lower/index_map.h"

namespace volta::plan {

using Mask = std::vector<LinearBound>;

// The numbers of an index and of a mask.
struct Place {
  int index = 0, mask = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// A list in which every item has one number. Items are the same if their extents have the same
// numbers and expressions, which no guard decides.
template <class Item>
class Distinct {
 public:
  const Item& operator[](int number) const { return items_[static_cast<std::size_t>(number)]; }
  std::size_t size() const { return items_.size(); }
  void clear() {
    items_.clear();
    by_hash_.clear();
  }
  int number_of(Item item) {
    const std::uint64_t hash = hash_of(item);
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto entry = first; entry != last; ++entry) {
      if (are_same((*this)[entry->second], item)) return entry->second;
    }
    const int number = static_cast<int>(items_.size());
    items_.push_back(std::move(item));
    by_hash_.emplace(hash, number);
    return number;
  }

 private:
  std::deque<Item> items_;  // references to items stay valid
  std::unordered_multimap<std::uint64_t, int> by_hash_;
};

std::uint64_t hash_of(const IndexMap& index);
std::uint64_t hash_of(const Mask& mask);
bool are_same(const IndexMap& a, const IndexMap& b);
bool are_same(const Mask& a, const Mask& b);

// Number 0 is the index of a scalar, and the mask that excludes nothing.
struct Places {
  Distinct<IndexMap> indices;
  Distinct<Mask> masks;

  Places() { clear(); }
  void clear() {
    indices.clear();
    masks.clear();
    indices.number_of({});
    masks.number_of({});
  }
};

}  // namespace volta::plan
