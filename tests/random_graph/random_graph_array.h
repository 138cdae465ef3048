// Arrays of the reference evaluator: values in double precision, each with a bound on the error of
// a device. Nothing here uses the library except the names of dtypes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "random_graph/random_graph_program.h"

namespace volta::random_graph {

// Thrown if the program cannot be run: shapes do not fit, an integer overflows, a history is gone.
struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr double kUnknown = std::numeric_limits<double>::infinity();

// A value and its error. The error is kUnknown if the device's value cannot be predicted (a
// comparison of nearly equal numbers, an argument outside the domain); such elements are not
// compared.
struct Num {
  double v = 0;
  double e = 0;
};

struct Array {
  Dims dims;
  DType dtype = DType::f32;
  std::vector<Num> at;

  Array() = default;
  Array(Dims d, DType t);
  std::int64_t numel() const { return static_cast<std::int64_t>(at.size()); }
  int rank() const { return static_cast<int>(dims.size()); }
};

std::int64_t numel_of(const Dims& dims);
double rounded_to(double value, DType dtype);
// One unit in the last place of 1.
double unit_of(DType dtype);
// A result in its dtype: adds `ulps` of rounding unless it is exact, and becomes kUnknown if it is
// too large; u8 wraps, larger integers must not overflow.
Num settled(Num n, DType dtype, double ulps);
DType promoted(DType a, DType b);
// The dtype of a scalar counts only if it is of a higher kind.
DType promoted(const Array& a, const Array& b);
// The dtype in which composed operations are computed.
constexpr DType inner_of(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Array filled(const Dims& dims, double value, DType dtype);

// ---- Elementwise. Operands have one dtype, and shapes broadcast.
Array unary(Op op, const Array& x);
Array binary(Op op, const Array& a, const Array& b);
Array where(const Array& condition, const Array& a, const Array& b);
Array cast(const Array& x, DType dtype);

// A sum in progress. A device rounds in f32 (or f64) for each addition, then to the dtype. Whole
// numbers that fit the mantissa are summed exactly in any order.
class Sum {
 public:
  void add(double value, double error);
  // `roundings` of each term before it is added; `chain` is the largest number of additions per
  // term.
  Num in(DType dtype, int roundings = 0, int chain = 48) const;

 private:
  long double value_ = 0;
  double error_ = 0, sizes_ = 0;
  bool whole_ = true;
  int terms_ = 0;
};

// ---- Views, by strides.
Dims broadcast(const Dims& a, const Dims& b);
Array reshape(const Array& x, const Dims& dims);
Array permute(const Array& x, const Dims& order);
Array expand(const Array& x, const Dims& dims);
Array narrow(const Array& x, int axis, std::int64_t start, std::int64_t length);
Array pad(const Array& x, const Dims& before, const Dims& after, double value);
// Sums over the axes that broadcasting added.
Array sum_to(const Array& x, const Dims& dims);

// ---- Reductions over sorted axes.
Array sum(const Array& x, const Dims& axes, bool keepdim);
Array max(const Array& x, const Dims& axes, bool keepdim);
Array argmax(const Array& x, int axis, bool keepdim);
Array mean(const Array& x, const Dims& axes, bool keepdim);
Dims all_axes(const Array& x);

// ---- Products and rows.
Array matmul(const Array& a, const Array& b);  // operands have at least two axes
Array transposed(const Array& x);              // exchanges the last two axes
Array gather(const Array& table, const Array& ids);
Array scatter(const Array& rows, const Array& ids, const Dims& dims);

// ---- Composed.
Array softmax(const Array& x, int axis);
Array log_softmax(const Array& x, int axis);

// Philox4x32-10: the word of element `index` of a draw that began at `offset`.
std::uint32_t philox_word(std::uint64_t seed, std::uint64_t offset, std::uint64_t index);
// Uniform numbers in [0, 1): every `stride`-th word from `first` on.
Array philox_uniform(std::uint64_t seed, std::uint64_t offset, const Dims& dims, DType dtype,
                     int stride = 1, int first = 0);

}  // namespace volta::random_graph
