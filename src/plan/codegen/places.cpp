// Hashing and comparing index expressions and masks.
#include "plan/codegen/places.h"

#include <algorithm>

namespace volta::plan {
namespace {

class Hasher {
 public:
  void mix(std::uint64_t number) {
    hash_ = (hash_ ^ number) * 0x9FB21C651E98DF25u;
    hash_ ^= hash_ >> 32;
  }
  void mix(Extent extent) {
    mix(static_cast<std::uint64_t>(extent.hint()) + (std::uint64_t{extent.expression()} << 40));
  }
  void mix(const Linear& linear) {
    for (const Extent c : linear.coefficient) mix(c);
    mix(linear.offset);
  }
  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0x9E3779B97F4A7C15u;
};

bool are_same(const Linear& a, const Linear& b) {
  return is_same(a.offset, b.offset) &&
         std::equal(a.coefficient.begin(), a.coefficient.end(), b.coefficient.begin(),
                    b.coefficient.end(), is_same);
}

}  // namespace

std::uint64_t hash_of(const IndexMap& index) {
  Hasher hasher;
  for (const Linear& e : index) hasher.mix(e);
  return hasher.hash();
}

std::uint64_t hash_of(const Mask& mask) {
  Hasher hasher;
  for (const LinearBound& bound : mask) {
    hasher.mix(bound.expression);
    hasher.mix(bound.high);
  }
  return hasher.hash();
}

bool are_same(const IndexMap& a, const IndexMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Linear& x, const Linear& y) { return are_same(x, y); });
}

bool are_same(const Mask& a, const Mask& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const LinearBound& x, const LinearBound& y) {
                      return is_same(x.high, y.high) && are_same(x.expression, y.expression);
                    });
}

}  // namespace volta::plan
