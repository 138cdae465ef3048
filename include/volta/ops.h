// Operations as free functions. Shapes broadcast as in NumPy; dtypes promote as in PyTorch. A
// mistake throws at the call and names the operation and the shapes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "volta/creation.h"
#include "volta/tensor.h"

namespace volta {

// ---- Elementwise. A number takes the tensor's dtype, or f32 beside integers if it has a fraction;
// a number that the integer dtype of the result cannot represent is an error.

// Generated from src/graph/record/elementwise.def by scripts/make_operations.py.

// a + b; for bools, whether either is true.
VOLTA_API Tensor add(const Operand& a, const Operand& b);
// a - b.
VOLTA_API Tensor sub(const Operand& a, const Operand& b);
// a times b; for bools, whether both are true.
VOLTA_API Tensor mul(const Operand& a, const Operand& b);
// a divided by b; integers divide to f32.
VOLTA_API Tensor div(const Operand& a, const Operand& b);
// The remainder with the sign of b; also written a % b. Integers keep their dtype, and division by
// zero gives zero; dividing integers by the number zero is an error.
VOLTA_API Tensor mod(const Operand& a, const Operand& b);
// The remainder with the sign of a; integers as in mod.
VOLTA_API Tensor fmod(const Operand& a, const Operand& b);
// The quotient a / b rounded down; integers as in mod.
VOLTA_API Tensor floor_div(const Operand& a, const Operand& b);
// a to the power of b. Integers keep their dtype: a negative exponent in a tensor gives 0 (±1 for
// ±1), and a negative number as exponent is an error.
VOLTA_API Tensor pow(const Operand& a, const Operand& b);
// The angle of the point (b, a).
VOLTA_API Tensor atan2(const Operand& a, const Operand& b);
// The larger of a and b; NaN if either is NaN. A tie splits the gradient.
VOLTA_API Tensor maximum(const Operand& a, const Operand& b);
// The smaller of a and b; NaN if either is NaN. A tie splits the gradient.
VOLTA_API Tensor minimum(const Operand& a, const Operand& b);
// Whether a is less than b. A number is compared as it is, also where the tensor's integers end
// before it.
VOLTA_API Tensor lt(const Operand& a, const Operand& b);
// Whether a is at most b; numbers as in lt.
VOLTA_API Tensor le(const Operand& a, const Operand& b);
// Whether a is greater than b; numbers as in lt.
VOLTA_API Tensor gt(const Operand& a, const Operand& b);
// Whether a is at least b; numbers as in lt.
VOLTA_API Tensor ge(const Operand& a, const Operand& b);
// Whether a equals b; numbers as in lt.
VOLTA_API Tensor eq(const Operand& a, const Operand& b);
// Whether a differs from b; numbers as in lt.
VOLTA_API Tensor ne(const Operand& a, const Operand& b);
// Whether both are nonzero.
VOLTA_API Tensor logical_and(const Operand& a, const Operand& b);
// Whether at least one is nonzero.
VOLTA_API Tensor logical_or(const Operand& a, const Operand& b);
// Whether exactly one is nonzero.
VOLTA_API Tensor logical_xor(const Operand& a, const Operand& b);
// a where the bool condition is true, else b.
VOLTA_API Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
// a b + c.
VOLTA_API Tensor mulacc(const Operand& a, const Operand& b, const Operand& c);
// a + weight (b - a), for floats.
VOLTA_API Tensor lerp(const Operand& a, const Operand& b, const Operand& weight);
// x + value a b; for integers, value must be an integer.
VOLTA_API Tensor addcmul(const Tensor& x, const Operand& a, const Operand& b, Scalar value = 1,
                         SourceLocation place = SourceLocation::here());
// x + value a / b for floats; if a and b are both numbers, x must be a float.
VOLTA_API Tensor addcdiv(const Tensor& x, const Operand& a, const Operand& b, Scalar value = 1,
                         SourceLocation place = SourceLocation::here());
// x limited to bounds that are numbers or tensors; {} means no bound. NaN stays NaN.
VOLTA_API Tensor clamp(const Tensor& x, const std::optional<Operand>& low,
                       const std::optional<Operand>& high,
                       SourceLocation place = SourceLocation::here());
// -x; also written as the operator.
VOLTA_API Tensor neg(const Tensor& x, SourceLocation place = SourceLocation::here());
// The magnitude of x.
VOLTA_API Tensor abs(const Tensor& x, SourceLocation place = SourceLocation::here());
// 1, -1 or 0: 0 for zeros and NaN.
VOLTA_API Tensor sign(const Tensor& x, SourceLocation place = SourceLocation::here());
// e to the power of x.
VOLTA_API Tensor exp(const Tensor& x, SourceLocation place = SourceLocation::here());
// 2 to the power of x.
VOLTA_API Tensor exp2(const Tensor& x, SourceLocation place = SourceLocation::here());
// exp(x) - 1, accurate also near 0.
VOLTA_API Tensor expm1(const Tensor& x, SourceLocation place = SourceLocation::here());
// The natural logarithm.
VOLTA_API Tensor log(const Tensor& x, SourceLocation place = SourceLocation::here());
// The logarithm to base 2.
VOLTA_API Tensor log2(const Tensor& x, SourceLocation place = SourceLocation::here());
// The logarithm to base 10.
VOLTA_API Tensor log10(const Tensor& x, SourceLocation place = SourceLocation::here());
// log(1 + x), accurate also near 0.
VOLTA_API Tensor log1p(const Tensor& x, SourceLocation place = SourceLocation::here());
// The square root.
VOLTA_API Tensor sqrt(const Tensor& x, SourceLocation place = SourceLocation::here());
// 1 / sqrt(x).
VOLTA_API Tensor rsqrt(const Tensor& x, SourceLocation place = SourceLocation::here());
// x times x.
VOLTA_API Tensor square(const Tensor& x, SourceLocation place = SourceLocation::here());
// 1 / x.
VOLTA_API Tensor reciprocal(const Tensor& x, SourceLocation place = SourceLocation::here());
// The sine of x radians.
VOLTA_API Tensor sin(const Tensor& x, SourceLocation place = SourceLocation::here());
// The cosine of x radians.
VOLTA_API Tensor cos(const Tensor& x, SourceLocation place = SourceLocation::here());
// The tangent of x radians.
VOLTA_API Tensor tan(const Tensor& x, SourceLocation place = SourceLocation::here());
// The angle whose sine is x; NaN beyond ±1.
VOLTA_API Tensor asin(const Tensor& x, SourceLocation place = SourceLocation::here());
// The angle whose cosine is x; NaN beyond ±1.
VOLTA_API Tensor acos(const Tensor& x, SourceLocation place = SourceLocation::here());
// The angle whose tangent is x.
VOLTA_API Tensor atan(const Tensor& x, SourceLocation place = SourceLocation::here());
// The hyperbolic sine.
VOLTA_API Tensor sinh(const Tensor& x, SourceLocation place = SourceLocation::here());
// The hyperbolic cosine.
VOLTA_API Tensor cosh(const Tensor& x, SourceLocation place = SourceLocation::here());
// The hyperbolic tangent.
VOLTA_API Tensor tanh(const Tensor& x, SourceLocation place = SourceLocation::here());
// The inverse of sinh.
VOLTA_API Tensor asinh(const Tensor& x, SourceLocation place = SourceLocation::here());
// The inverse of cosh, not negative; NaN below 1.
VOLTA_API Tensor acosh(const Tensor& x, SourceLocation place = SourceLocation::here());
// The inverse of tanh; ±inf at ±1, NaN beyond.
VOLTA_API Tensor atanh(const Tensor& x, SourceLocation place = SourceLocation::here());
// The logistic function.
VOLTA_API Tensor sigmoid(const Tensor& x, SourceLocation place = SourceLocation::here());
// The error function.
VOLTA_API Tensor erf(const Tensor& x, SourceLocation place = SourceLocation::here());
// 1 - erf(x), accurate also where it is small.
VOLTA_API Tensor erfc(const Tensor& x, SourceLocation place = SourceLocation::here());
// The largest integer that is at most x.
VOLTA_API Tensor floor(const Tensor& x, SourceLocation place = SourceLocation::here());
// The smallest integer that is at least x.
VOLTA_API Tensor ceil(const Tensor& x, SourceLocation place = SourceLocation::here());
// The nearest integer; ties to even.
VOLTA_API Tensor round(const Tensor& x, SourceLocation place = SourceLocation::here());
// Whether x is NaN.
VOLTA_API Tensor isnan(const Tensor& x, SourceLocation place = SourceLocation::here());
// Whether x is infinite.
VOLTA_API Tensor isinf(const Tensor& x, SourceLocation place = SourceLocation::here());
// x where it is positive, else 0; NaN stays NaN.
VOLTA_API Tensor relu(const Tensor& x, SourceLocation place = SourceLocation::here());
// x times the standard normal distribution function of x, computed exactly (erf).
VOLTA_API Tensor gelu(const Tensor& x, SourceLocation place = SourceLocation::here());
// The same, or its approximation by tanh.
VOLTA_API Tensor gelu(const Tensor& x, GeluOptions options,
                      SourceLocation place = SourceLocation::here());
// x times its sigmoid.
VOLTA_API Tensor silu(const Tensor& x, SourceLocation place = SourceLocation::here());
// silu
VOLTA_API Tensor swish(const Tensor& x, SourceLocation place = SourceLocation::here());
// x where it is positive, else x times the slope.
VOLTA_API Tensor leaky_relu(const Tensor& x, double slope = 0.01,
                            SourceLocation place = SourceLocation::here());
// x where it is positive, else alpha (e^x - 1).
VOLTA_API Tensor elu(const Tensor& x, double alpha = 1,
                     SourceLocation place = SourceLocation::here());
// log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold.
VOLTA_API Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                          SourceLocation place = SourceLocation::here());
// x times the tanh of its softplus.
VOLTA_API Tensor mish(const Tensor& x, SourceLocation place = SourceLocation::here());
// x times (x + 3) / 6 clamped to [0, 1].
VOLTA_API Tensor hardswish(const Tensor& x, SourceLocation place = SourceLocation::here());
// Whether x is zero.
VOLTA_API Tensor logical_not(const Tensor& x, SourceLocation place = SourceLocation::here());

// End of the generated declarations.

// ---- Movement. Operations with one tensor are methods of Tensor as well.
// Adds elements before and after each axis, first axis first; a negative amount removes elements.
VOLTA_API Tensor pad(const Tensor& x, std::span<const std::int64_t> before,
                     std::span<const std::int64_t> after, Scalar value = 0,
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor pad(const Tensor& x, std::span<const std::int64_t> before,
                     std::span<const std::int64_t> after, PadOptions options,
                     SourceLocation place = SourceLocation::here());
// Puts the tensors one after the other along an axis; dtypes promote. A tensor [0] fits all others
// and adds nothing.
VOLTA_API Tensor concat(std::span<const Tensor> tensors, std::int64_t axis = 0,
                        SourceLocation place = SourceLocation::here());
VOLTA_API Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                        SourceLocation place = SourceLocation::here());
VOLTA_API Tensor cat(std::span<const Tensor> tensors, std::int64_t axis = 0,
                     SourceLocation place = SourceLocation::here());  // concat
VOLTA_API Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                     SourceLocation place = SourceLocation::here());
// Puts the tensors one after the other along a new axis.
VOLTA_API Tensor stack(std::span<const Tensor> tensors, std::int64_t axis = 0,
                       SourceLocation place = SourceLocation::here());
VOLTA_API Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                       SourceLocation place = SourceLocation::here());

VOLTA_API Tensor reshape(const Tensor& x, const Shape& shape,
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1,
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor permute(const Tensor& x, std::span<const std::int64_t> order,
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b,
                           SourceLocation place = SourceLocation::here());
VOLTA_API Tensor squeeze(const Tensor& x, std::int64_t axis,
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor unsqueeze(const Tensor& x, std::int64_t axis,
                           SourceLocation place = SourceLocation::here());
VOLTA_API Tensor
narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length,
       SourceLocation place = SourceLocation::here());  // a negative start counts from the end
VOLTA_API Tensor flip(const Tensor& x, std::span<const std::int64_t> axes,
                      SourceLocation place = SourceLocation::here());
VOLTA_API Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis,
                      SourceLocation place = SourceLocation::here());
VOLTA_API Tensor tile(const Tensor& x, std::span<const std::int64_t> counts,
                      SourceLocation place = SourceLocation::here());
VOLTA_API std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0,
                                    SourceLocation place = SourceLocation::here());
VOLTA_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0,
                                    SourceLocation place = SourceLocation::here());

// ---- Reductions, over all axes, one or several. Scalars also accept the axes 0 and -1.
// Integers are summed and multiplied in i64 and have no mean. The sum of no elements is 0, their
// mean NaN, their product 1.
VOLTA_API Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                      SourceLocation place = SourceLocation::here());
VOLTA_API Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                      SourceLocation place = SourceLocation::here());
// NaN if any element is NaN. Along one axis the gradient goes to the first of equal elements; over
// several or all axes it is divided among them.
VOLTA_API Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     SourceLocation place = SourceLocation::here());
// Whether any (or every) element is not zero.
VOLTA_API Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     SourceLocation place = SourceLocation::here());

VOLTA_API Tensor var(const Tensor& x, const Axes& axes = {}, VarOptions options = {},
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor std(const Tensor& x, const Axes& axes = {}, VarOptions options = {},
                     SourceLocation place = SourceLocation::here());
// (sum |x|^p)^(1/p). p may be infinite (the largest |x|), -infinite (the smallest |x|) or 0 (the
// number of elements that are not zero).
VOLTA_API Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false,
                      SourceLocation place = SourceLocation::here());
// log(sum(exp(x))), without overflow.
VOLTA_API Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                           SourceLocation place = SourceLocation::here());
// The position of the first largest (smallest) element, as i64. NaN counts as the largest
// (smallest).
VOLTA_API Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {},
                        bool keepdim = false, SourceLocation place = SourceLocation::here());
VOLTA_API Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {},
                        bool keepdim = false, SourceLocation place = SourceLocation::here());

VOLTA_API Tensor softmax(const Tensor& x, std::int64_t axis,
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor log_softmax(const Tensor& x, std::int64_t axis,
                             SourceLocation place = SourceLocation::here());
// The running sum along an axis; integers are summed in i64.
VOLTA_API Tensor cumsum(const Tensor& x, std::int64_t axis,
                        SourceLocation place = SourceLocation::here());

// ---- Products.
// Multiplies vectors, matrices and batches of matrices with broadcasting, as torch.matmul does.
VOLTA_API Tensor matmul(const Tensor& a, const Tensor& b,
                        SourceLocation place = SourceLocation::here());

VOLTA_API Tensor bmm(const Tensor& a, const Tensor& b,
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor dot(const Tensor& a, const Tensor& b,
                     SourceLocation place = SourceLocation::here());
VOLTA_API Tensor outer(const Tensor& a, const Tensor& b,
                       SourceLocation place = SourceLocation::here());
// Einstein summation as in torch.einsum: "bhqd,bhkd->bhqk", with "..." and repeated labels
// (diagonals). Operands are contracted pairwise from the left.
VOLTA_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
                        SourceLocation place = SourceLocation::here());
// x [..., in] times weight [out, in] transposed, plus bias [out] if defined; gives [..., out]. With
// a weight [in] and a bias of rank 0 the result is [...].
VOLTA_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        SourceLocation place = SourceLocation::here());

// ---- Indexing. Numbers, ranges and assignment (x[i]) are in indexing.h. An index out of range is
// clamped, and reading a value that depends on it throws IndexError. Negative indices are out of
// range here, except in take_along_axis. A tensor of rank 0 counts as one of a single element.
// weight[ids]: the rows of weight [n, d] for ids of any shape, as [..., d].
VOLTA_API Tensor embedding(const Tensor& weight, const Tensor& ids,
                           SourceLocation place = SourceLocation::here());
// The slices of x along the axis at the positions in index [k].
VOLTA_API Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index,
                              SourceLocation place = SourceLocation::here());
// x with the slices of source added along the axis at the positions in index [k]; positions may
// repeat.
VOLTA_API Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                           const Tensor& source, SourceLocation place = SourceLocation::here());
// Elements of x at the indices along the axis, in the shape of index. index has the rank of x and
// is no larger than x in the other axes, or has no elements.
VOLTA_API Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index,
                        SourceLocation place = SourceLocation::here());
// Elements of x at the indices along the axis. In the other axes x and index broadcast; negative
// indices count from the end. This is PyTorch's take_along_dim.
VOLTA_API Tensor take_along_axis(const Tensor& x, const Tensor& index, std::int64_t axis,
                                 SourceLocation place = SourceLocation::here());
// x with elements of source, or a number, written where gather would read. If several are written
// to one position, the last in the order of index stays, on every device, and only it gets the
// gradient.
VOLTA_API Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index,
                         const Operand& source);
// x with elements of source added where gather would read, in the order of index.
VOLTA_API Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                             const Tensor& source, SourceLocation place = SourceLocation::here());
// x with a number, or a tensor of one element, where mask is true; x and mask broadcast.
VOLTA_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);
// Results whose size depends on values are evaluated at the call, unless the size is given. Then
// elements beyond the size are dropped, and missing ones are `fill`.
struct FixedSize {
  std::int64_t size;
  Scalar fill = 0;
};
// The elements of x where mask is true, as [n]; x and mask broadcast.
VOLTA_API Tensor masked_select(const Tensor& x, const Tensor& mask,
                               SourceLocation place = SourceLocation::here());
VOLTA_API Tensor masked_select(const Tensor& x, const Tensor& mask, FixedSize options,
                               SourceLocation place = SourceLocation::here());
// The indices of elements that are not 0, in order, as i64 [n, rank].
VOLTA_API Tensor nonzero(const Tensor& x, SourceLocation place = SourceLocation::here());
VOLTA_API Tensor nonzero(const Tensor& x, FixedSize options,
                         SourceLocation place = SourceLocation::here());
// 1 at each index and 0 elsewhere, along a new last axis, as i64. With -1 classes the largest index
// is evaluated to find their number.
VOLTA_API Tensor one_hot(const Tensor& index, std::int64_t classes = -1,
                         SourceLocation place = SourceLocation::here());
// Matrices with the elements above (below) a diagonal set to 0. Diagonals right of the main one
// have positive numbers.
VOLTA_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0,
                      SourceLocation place = SourceLocation::here());
VOLTA_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0,
                      SourceLocation place = SourceLocation::here());

// ---- Order. Sorting is stable, and NaN is greater than everything.
struct Sorted {
  Tensor values, indices;  // indices: i64 positions along the axis
};
struct SortOptions {
  bool descending = false;
};
VOLTA_API Sorted sort(const Tensor& x, std::int64_t axis = -1, SortOptions options = {},
                      SourceLocation place = SourceLocation::here());
VOLTA_API Tensor argsort(const Tensor& x, std::int64_t axis = -1, SortOptions options = {},
                         SourceLocation place = SourceLocation::here());
// The k largest (or smallest) elements along the axis, in order.
struct TopKOptions {
  bool largest = true;
};
VOLTA_API Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1,
                      TopKOptions options = {}, SourceLocation place = SourceLocation::here());

// ---- Normalisation and regularisation.
// Normalises the last axes, as many as `normalized` has; weight and bias may be undefined.
VOLTA_API Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                            const Tensor& bias = {}, double eps = 1e-5,
                            SourceLocation place = SourceLocation::here());
// Zeroes each element with probability p and scales the rest by 1 / (1 - p).
VOLTA_API Tensor dropout(const Tensor& x, double p, bool training = true,
                         SourceLocation place = SourceLocation::here());
VOLTA_API Tensor dropout(const Tensor& x, double p, bool training, const Generator& generator,
                         SourceLocation place = SourceLocation::here());

}  // namespace volta
