// The parts of the conformance suite: host arrays in double precision, reference operations as
// plain loops over them, and runners that count an operation's transfers and its work on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "runtime/device_work.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::conformance {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- Host arrays.

// Rounds to `bits` significant bits with exponents from `least`, ties to even; infinite beyond
// `largest`.
inline double rounded(double value, int bits, int least, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent, least + 1) - bits;
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
  return std::fabs(result) > largest ? std::copysign(kInf, value) : result;
}

inline double in_dtype(double value, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return rounded(value, 11, -14, 65504);
    case DType::bf16:
      return rounded(value, 8, -126, 0x1.FEp127);
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f64:
      return value;
    case DType::boolean:
      return value != 0 ? 1 : 0;
    default:
      return std::trunc(value);
  }
}

struct Array {
  Shape shape;
  std::vector<double> values;
  DType dtype = DType::f32;

  Array() = default;
  Array(Shape s, std::vector<double> v, DType t = DType::f32)
      : shape(s), values(std::move(v)), dtype(t) {
    for (double& value : values) value = in_dtype(value, t);
  }
  Array as(DType t) const { return {shape, values, t}; }
};

// Fixed numbers in [low, high), irregular enough that no two elements are equal.
inline Array numbers(const Shape& shape, double low = -2, double high = 2, DType dtype = DType::f32,
                     double start = 0.37) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  double at = start;
  for (double& value : values) {
    at = std::fmod(at + 0.6180339887498949, 1.0);
    value = low + (high - low) * at;
  }
  return {shape, std::move(values), dtype};
}

// Small integers in [low, high), with repetitions.
inline Array integers(const Shape& shape, int low, int high, DType dtype, int start = 0) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  std::uint32_t state = static_cast<std::uint32_t>(start) * 7919u + 17u;
  for (double& value : values) {
    state = state * 1664525u + 1013904223u;
    value = low + static_cast<int>(state >> 16) % (high - low + 1);
  }
  return {shape, std::move(values), dtype};
}

// ---- Reference operations.

using Index = std::vector<std::int64_t>;

inline Index index_of(std::int64_t number, const Shape& shape) {
  Index index(static_cast<std::size_t>(shape.rank()));
  for (int i = shape.rank() - 1; i >= 0; --i) {
    index[static_cast<std::size_t>(i)] = number % shape[i];
    number /= shape[i];
  }
  return index;
}

// The element at an index of a shape that `a` broadcasts to.
inline double at(const Array& a, std::span<const std::int64_t> index) {
  std::int64_t offset = 0;
  const std::size_t skipped = index.size() - static_cast<std::size_t>(a.shape.rank());
  for (int i = 0; i < a.shape.rank(); ++i) {
    const std::int64_t size = a.shape[i];
    offset = offset * size + (size == 1 ? 0 : index[skipped + static_cast<std::size_t>(i)]);
  }
  return a.values[static_cast<std::size_t>(offset)];
}

template <class Element>
Array made(const Shape& shape, DType dtype, Element element) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element(index_of(static_cast<std::int64_t>(i), shape));
  }
  Array result;  // unrounded, because the reference keeps double precision
  result.shape = shape;
  result.values = std::move(values);
  result.dtype = dtype;
  return result;
}

template <class F>
Array mapped(const Array& x, F f) {
  Array result = x;
  for (double& value : result.values) value = f(value);
  return result;
}

// NumPy's broadcasting, implemented independently of the library's.
inline Shape joined(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Index sizes(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const std::int64_t x = i < a.rank() ? a[a.rank() - 1 - i] : 1,
                       y = i < b.rank() ? b[b.rank() - 1 - i] : 1;
    sizes[static_cast<std::size_t>(rank - 1 - i)] = x == 1 ? y : x;
  }
  return Shape(sizes);
}

template <class F>
Array combined(const Array& a, const Array& b, F f) {
  return made(joined(a.shape, b.shape), a.dtype,
              [&](const Index& i) { return f(at(a, i), at(b, i)); });
}

inline Array permuted(const Array& x, const Index& order) {
  Index sizes;
  for (const std::int64_t axis : order) sizes.push_back(x.shape[static_cast<int>(axis)]);
  return made(Shape(sizes), x.dtype, [&](const Index& i) {
    Index source(i.size());
    for (std::size_t k = 0; k < i.size(); ++k) source[static_cast<std::size_t>(order[k])] = i[k];
    return at(x, source);
  });
}

inline Array narrowed(const Array& x, int axis, std::int64_t start, std::int64_t length) {
  return made(x.shape.with(axis, length), x.dtype, [&](Index i) {
    i[static_cast<std::size_t>(axis)] += start;
    return at(x, i);
  });
}

inline Array expanded(const Array& x, const Shape& shape) {
  return made(shape, x.dtype, [&](const Index& i) { return at(x, i); });
}

// Calls fold(values along the axes, in row-major order) for each of the other indices.
template <class Fold>
Array folded(const Array& x, const std::vector<int>& axes, bool keepdim, Fold fold) {
  std::vector<bool> gone(static_cast<std::size_t>(x.shape.rank()), false);
  for (const int axis : axes) gone[static_cast<std::size_t>(axis)] = true;
  Index kept_sizes, ones, reduced_sizes;
  for (int i = 0; i < x.shape.rank(); ++i) {
    (gone[static_cast<std::size_t>(i)] ? reduced_sizes : kept_sizes).push_back(x.shape[i]);
    ones.push_back(gone[static_cast<std::size_t>(i)] ? 1 : x.shape[i]);
  }
  const Shape kept(kept_sizes), reduced(reduced_sizes);
  Array result = made(kept, x.dtype, [&](const Index& k) {
    std::vector<double> values;
    for (std::int64_t n = 0; n < reduced.numel(); ++n) {
      const Index r = index_of(n, reduced);
      Index whole;
      std::size_t next_kept = 0, next_reduced = 0;
      for (const bool g : gone) whole.push_back(g ? r[next_reduced++] : k[next_kept++]);
      values.push_back(at(x, whole));
    }
    return fold(values);
  });
  if (keepdim) result.shape = Shape(ones);
  return result;
}

inline double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
inline double largest(const std::vector<double>& values) {
  double result = -kInf;
  for (const double value : values) {
    if (std::isnan(value)) return value;
    result = std::max(result, value);
  }
  return result;
}

// ---- Comparing.

// actual - expected| <= relative |expected| + absolute. NaN equals NaN; infinities are exact.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

// A wrong formula cannot meet these tolerances; rounding errors do.
inline Tolerance exact_in(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {1e-3, 1e-7};
    case DType::bf16:
      return {8e-3, 0};
    case DType::f32:
      return {1e-6, 0};
    case DType::f64:
      return {1e-15, 0};
    default:
      return {0, 0};
  }
}
inline Tolerance close_in(DType dtype, double magnitude = 1) {
  switch (dtype) {
    case DType::f16:
      return {4e-3, 2e-3 * magnitude};
    case DType::bf16:
      return {3e-2, 2e-2 * magnitude};
    case DType::f32:
      return {1e-5, 1e-6 * magnitude};
    case DType::f64:
      return {1e-12, 1e-13 * magnitude};
    default:
      return {0, 0};
  }
}

inline void expect_close(const Array& actual, const Array& expected, Tolerance tolerance) {
  ASSERT_EQ(actual.shape, expected.shape);
  ASSERT_EQ(actual.values.size(), expected.values.size());
  int wrong = 0;
  for (std::size_t i = 0; i < actual.values.size() && wrong < 5; ++i) {
    const double a = actual.values[i], e = expected.values[i];
    if (std::isnan(e) ? std::isnan(a) : a == e) continue;
    if (std::isfinite(a) && std::isfinite(e) &&
        std::fabs(a - e) <= tolerance.relative * std::fabs(e) + tolerance.absolute) {
      continue;
    }
    ++wrong;
    ADD_FAILURE() << "element " << i << " of " << actual.shape << ": " << a << ", expected " << e;
  }
}

// ---- Running on the device.

// A case of the suite: the current test, which names the operation and the layout, on inputs of
// these shapes and dtypes. conformance_cases_test.cpp counts them.
void count_case(const char* what, std::span<const Array> inputs);

inline bool has(DType dtype) { return test_device().supports(dtype); }
// The dtype in which gradients are checked.
inline DType widest() { return has(DType::f64) ? DType::f64 : DType::f32; }

inline Tensor upload(const Array& a, bool requires_grad = false) {
  return from_vector(a.values, a.shape,
                     {.dtype = a.dtype, .device = test_device(), .requires_grad = requires_grad});
}
inline Array download(const Tensor& t) { return {t.shape(), t.to_vector<double>(), t.dtype()}; }

// Expects that nothing runs on another device and that only the `expected` number of arrays is
// transferred.
class Moves {
 public:
  Moves() : before_(counters()) {}
  void expect(std::uint64_t expected) const {
    work_.expect_here();
    if (!test_device().is_gpu()) return;
    const Counters now = counters();
    EXPECT_EQ(now.transfers - before_.transfers, expected);
  }
  void expect_at_most(std::uint64_t most) const {
    work_.expect_here();
    if (!test_device().is_gpu()) return;
    const Counters now = counters();
    EXPECT_LE(now.transfers - before_.transfers, most);
  }

 private:
  Counters before_;
  DeviceWork work_;
};

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Uploads the inputs, calls the function, downloads its result, and counts.
inline Array run(const std::vector<Array>& inputs, const Function& function) {
  count_case("value", inputs);
  const Moves moves;
  std::vector<Tensor> tensors;
  std::uint64_t moved = 0;
  for (const Array& input : inputs) {
    tensors.push_back(upload(input));
    moved += input.values.empty() ? 0 : 1;
  }
  const Tensor result = function(tensors);
  EXPECT_EQ(result.device(), test_device());
  const Array values = download(result);
  moves.expect(moved + (values.values.empty() ? 0 : 1));
  return values;
}

inline void expect_result(const std::vector<Array>& inputs, const Function& function,
                          const Array& expected, Tolerance tolerance) {
  const Array actual = run(inputs, function);
  EXPECT_EQ(actual.dtype, expected.dtype);
  expect_close(actual, expected, tolerance);
}

// Compares gradients with finite differences; then one pass counts uploads of inputs and weights
// and downloads of gradients.
inline void expect_gradients(std::vector<Array> inputs, const Function& function) {
  std::vector<Tensor> tensors;
  for (Array& input : inputs) {
    input = input.as(widest());
    tensors.push_back(upload(input));
  }
  count_case("gradient", inputs);
  const CheckOptions options = widest() == DType::f64 ? CheckOptions{.eps = 1e-6, .tol = 1e-7}
                                                      : CheckOptions{.eps = 1e-2, .tol = 4e-3};
  const DeviceWork work;
  const CheckReport report = check_gradients(function, tensors, options);
  EXPECT_TRUE(report.passed) << report.message;
  work.expect_here();

  const Shape shape = function(tensors).shape();
  const Array weights = numbers(shape, 0.5, 1.5, widest());
  const Moves moves;
  std::vector<Tensor> leaves;
  for (const Array& input : inputs) leaves.push_back(upload(input, true));
  const Tensor y = function(leaves);
  y.backward(upload(weights));
  for (const Tensor& leaf : leaves) {
    const Tensor gradient = leaf.grad();
    ASSERT_TRUE(gradient.defined());
    EXPECT_EQ(gradient.shape(), leaf.shape());
    EXPECT_EQ(gradient.dtype(), leaf.dtype());
    EXPECT_EQ(gradient.device(), test_device());
    download(gradient);
  }
  // There are fewer transfers if a gradient is constant or one value serves two inputs.
  moves.expect_at_most(2 * inputs.size() + 1);
}

}  // namespace volta::conformance
