// The layouts in memory in which a matrix is read by an operation, and the dtypes that are tried
// for each. Every operation gets the same checks.
#pragma once

#include "ops/conformance/conformance.h"

namespace volta::conformance {

struct Layout {
  const char* name;
  Tensor (*of_tensor)(const Tensor&);
  Array (*of_array)(const Array&);
};

inline const Layout kLayouts[] = {
    {"row by row", [](const Tensor& x) { return x; }, [](const Array& x) { return x; }},
    {"turned", [](const Tensor& x) { return x.t(); },
     [](const Array& x) { return permuted(x, {1, 0}); }},
    {"narrowed", [](const Tensor& x) { return x.narrow(1, 1, x.size(1) - 2); },
     [](const Array& x) { return narrowed(x, 1, 1, x.shape[1] - 2); }},
    {"every second, backwards", [](const Tensor& x) { return x.stride({1, -2}); },
     [](const Array& x) {
       return made(x.shape.with(1, (x.shape[1] + 1) / 2), x.dtype, [&](Index i) {
         i[1] = x.shape[1] - 1 - 2 * i[1];
         return at(x, i);
       });
     }},
    {"one row for all", [](const Tensor& x) { return x.narrow(0, 1, 1).expand(x.shape()); },
     [](const Array& x) { return expanded(narrowed(x, 0, 1, 1), x.shape); }},
};

inline constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
inline constexpr DType kIntegers[] = {DType::i32, DType::i64, DType::u8};

}  // namespace volta::conformance
