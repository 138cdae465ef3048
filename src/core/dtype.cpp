// Names of element types and their promotion.
#include "volta/dtype.h"

#include <ostream>

namespace volta {
namespace {

// Within one kind (floating or integral) the higher rank wins; f16 and bf16 cannot hold each other.
constexpr int kRank[kDTypeCount] = {/*f16*/ 0, /*bf16*/ 0, /*f32*/ 1, /*f64*/ 2,
                                    /*i32*/ 2, /*i64*/ 3,  /*u8*/ 1,  /*bool*/ 0};

constexpr int rank_of(DType t) { return kRank[static_cast<int>(t)]; }

}  // namespace

std::string_view name_of(DType t) {
  constexpr std::string_view names[kDTypeCount] = {"f16", "bf16", "f32", "f64",
                                                   "i32", "i64",  "u8",  "bool"};
  return names[static_cast<int>(t)];
}

std::string to_string(DType t) { return std::string(name_of(t)); }
std::ostream& operator<<(std::ostream& out, DType t) { return out << name_of(t); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (rank_of(a) == rank_of(b)) return DType::f32;  // f16 with bf16, the only tie
  return rank_of(a) > rank_of(b) ? a : b;
}

}  // namespace volta
