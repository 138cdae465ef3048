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
// one that the integers of the result do not have is refused.
VOLTA_API Tensor add(const Operand& a, const Operand& b);
VOLTA_API Tensor sub(const Operand& a, const Operand& b);
VOLTA_API Tensor mul(const Operand& a, const Operand& b);
VOLTA_API Tensor div(const Operand& a, const Operand& b);  // integers divide to f32
// Integers keep their dtype and divide by zero to zero; a number that is zero is refused.
VOLTA_API Tensor mod(const Operand& a, const Operand& b);        // has the sign of b; also a % b
VOLTA_API Tensor fmod(const Operand& a, const Operand& b);       // has the sign of a
VOLTA_API Tensor floor_div(const Operand& a, const Operand& b);  // rounded down
// Integers keep their dtype: a negative exponent gives 0 (±1 for ±1), as a number it is refused.
VOLTA_API Tensor pow(const Operand& a, const Operand& b);

VOLTA_API Tensor atan2(const Operand& a, const Operand& b);  // the angle of the point (b, a)
// NaN if either is; a tie splits the gradient.
VOLTA_API Tensor maximum(const Operand& a, const Operand& b);
VOLTA_API Tensor minimum(const Operand& a, const Operand& b);
// A number is compared as it is, also where the tensor's integers end before it.
VOLTA_API Tensor lt(const Operand& a, const Operand& b);
VOLTA_API Tensor le(const Operand& a, const Operand& b);
VOLTA_API Tensor gt(const Operand& a, const Operand& b);
VOLTA_API Tensor ge(const Operand& a, const Operand& b);
VOLTA_API Tensor eq(const Operand& a, const Operand& b);
VOLTA_API Tensor ne(const Operand& a, const Operand& b);

VOLTA_API Tensor logical_and(const Operand& a, const Operand& b);
VOLTA_API Tensor logical_or(const Operand& a, const Operand& b);
VOLTA_API Tensor logical_xor(const Operand& a, const Operand& b);
VOLTA_API Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
VOLTA_API Tensor mulacc(const Operand& a, const Operand& b, const Operand& c);  // a b + c
// a + weight (b - a), of floats.
VOLTA_API Tensor lerp(const Operand& a, const Operand& b, const Operand& weight);
// x + value a b; of integers, value is one.
VOLTA_API Tensor addcmul(const Tensor& x, const Operand& a, const Operand& b, Scalar value = 1,
                         Place place = Place::here());
// x + value a / b, where a and b are floats; two numbers are if x is.
VOLTA_API Tensor addcdiv(const Tensor& x, const Operand& a, const Operand& b, Scalar value = 1,
                         Place place = Place::here());
// Bounds are numbers or tensors; {} is none. NaN stays NaN.
VOLTA_API Tensor clamp(const Tensor& x, const std::optional<Operand>& low,
                       const std::optional<Operand>& high, Place place = Place::here());

VOLTA_API Tensor neg(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor abs(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor sign(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor exp(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor exp2(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor expm1(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor log(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor log2(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor log1p(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor sqrt(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor rsqrt(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor square(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor reciprocal(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor sin(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor cos(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor tan(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor asin(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor acos(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor atan(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor sinh(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor cosh(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor tanh(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor sigmoid(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor erf(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor floor(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor ceil(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor round(const Tensor& x, Place place = Place::here());  // ties to even
VOLTA_API Tensor isnan(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor isinf(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor relu(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor gelu(const Tensor& x, Place place = Place::here());  // exact (erf)
VOLTA_API Tensor gelu(const Tensor& x, GeluOptions options, Place place = Place::here());
VOLTA_API Tensor silu(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor swish(const Tensor& x, Place place = Place::here());  // silu
VOLTA_API Tensor leaky_relu(const Tensor& x, double slope = 0.01, Place place = Place::here());
VOLTA_API Tensor elu(const Tensor& x, double alpha = 1, Place place = Place::here());
// log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold.
VOLTA_API Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                          Place place = Place::here());

VOLTA_API Tensor mish(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor hardswish(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor logical_not(const Tensor& x, Place place = Place::here());

// ---- Movement (what has one operand is a method of Tensor as well).
// Elements before and after each axis, first axis first; a negative amount takes elements off.
VOLTA_API Tensor pad(const Tensor& x, std::span<const std::int64_t> before,
                     std::span<const std::int64_t> after, Scalar value = 0,
                     Place place = Place::here());
VOLTA_API Tensor pad(const Tensor& x, std::span<const std::int64_t> before,
                     std::span<const std::int64_t> after, PadOptions options,
                     Place place = Place::here());
// One after the other along an axis; dtypes promote. A tensor [0] fits any others and adds nothing.
VOLTA_API Tensor concat(std::span<const Tensor> tensors, std::int64_t axis = 0,
                        Place place = Place::here());
VOLTA_API Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                        Place place = Place::here());
VOLTA_API Tensor cat(std::span<const Tensor> tensors, std::int64_t axis = 0,
                     Place place = Place::here());  // concat
VOLTA_API Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                     Place place = Place::here());
// Along a new axis.
VOLTA_API Tensor stack(std::span<const Tensor> tensors, std::int64_t axis = 0,
                       Place place = Place::here());
VOLTA_API Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                       Place place = Place::here());

VOLTA_API Tensor reshape(const Tensor& x, const Shape& shape, Place place = Place::here());
VOLTA_API Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1,
                         Place place = Place::here());
VOLTA_API Tensor permute(const Tensor& x, std::span<const std::int64_t> order,
                         Place place = Place::here());
VOLTA_API Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b,
                           Place place = Place::here());
VOLTA_API Tensor squeeze(const Tensor& x, std::int64_t axis, Place place = Place::here());
VOLTA_API Tensor unsqueeze(const Tensor& x, std::int64_t axis, Place place = Place::here());
VOLTA_API Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length,
                        Place place = Place::here());  // a negative start counts from the end
VOLTA_API Tensor flip(const Tensor& x, std::span<const std::int64_t> axes,
                      Place place = Place::here());
VOLTA_API Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis,
                      Place place = Place::here());
VOLTA_API Tensor tile(const Tensor& x, std::span<const std::int64_t> counts,
                      Place place = Place::here());
VOLTA_API std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0,
                                    Place place = Place::here());
VOLTA_API std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0,
                                    Place place = Place::here());

// ---- Reductions, over all axes, one or several; of a scalar, 0 and -1 are axes as well.
// Integers add and multiply up in i64 and have no mean. Of no elements: 0, NaN and 1.
VOLTA_API Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     Place place = Place::here());
VOLTA_API Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                      Place place = Place::here());
VOLTA_API Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                      Place place = Place::here());
// NaN if one is. The gradient goes to the first of equal elements along one axis; over several or
// all axes they share it.
VOLTA_API Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     Place place = Place::here());
VOLTA_API Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     Place place = Place::here());
// Whether some element, or every one, is not zero.
VOLTA_API Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     Place place = Place::here());
VOLTA_API Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     Place place = Place::here());

VOLTA_API Tensor var(const Tensor& x, const Axes& axes = {}, VarOptions options = {},
                     Place place = Place::here());
VOLTA_API Tensor std(const Tensor& x, const Axes& axes = {}, VarOptions options = {},
                     Place place = Place::here());
// (sum |x|^p)^(1/p); p may be infinite (the largest |x|), -infinite (the smallest) or 0 (how many
// are not zero).
VOLTA_API Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false,
                      Place place = Place::here());
// log of the sum of exponentials, which do not overflow.
VOLTA_API Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                           Place place = Place::here());
// The position of the first largest (smallest) element, i64; NaN is larger and smaller than all.
VOLTA_API Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {},
                        bool keepdim = false, Place place = Place::here());
VOLTA_API Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {},
                        bool keepdim = false, Place place = Place::here());

VOLTA_API Tensor softmax(const Tensor& x, std::int64_t axis, Place place = Place::here());
VOLTA_API Tensor log_softmax(const Tensor& x, std::int64_t axis, Place place = Place::here());
// Running sum along an axis; integers add up in i64.
VOLTA_API Tensor cumsum(const Tensor& x, std::int64_t axis, Place place = Place::here());

// ---- Products.
// Vectors, matrices, batches with broadcasting, as torch.matmul.
VOLTA_API Tensor matmul(const Tensor& a, const Tensor& b, Place place = Place::here());

VOLTA_API Tensor bmm(const Tensor& a, const Tensor& b, Place place = Place::here());
VOLTA_API Tensor dot(const Tensor& a, const Tensor& b, Place place = Place::here());
VOLTA_API Tensor outer(const Tensor& a, const Tensor& b, Place place = Place::here());
// Einstein summation as torch.einsum: "bhqd,bhkd->bhqk", with "..." and repeated labels
// (diagonals). Operands are contracted pairwise from the left.
VOLTA_API Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
                        Place place = Place::here());
// x [..., in] times weight [out, in] transposed, plus bias [out] if defined: [..., out]. With a
// weight [in] and a bias without axes the result is [...].
VOLTA_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Place place = Place::here());

// ---- Indexing; x[i], ranges and assignment are in indexing.h. An index out of range is clamped,
// and looking at a value that depends on it throws IndexError; negative ones are out of range here,
// except in take_along_axis. A tensor without axes has one of one element.
// weight[ids]: rows of weight [n, d] for ids of any shape -> [..., d].
VOLTA_API Tensor embedding(const Tensor& weight, const Tensor& ids, Place place = Place::here());
// The parts of x along the axis that index [k] names.
VOLTA_API Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index,
                              Place place = Place::here());
// x with the parts of source added along the axis at index [k]; a place may be named often.
VOLTA_API Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                           const Tensor& source, Place place = Place::here());
// Elements of x along the axis, in the shape of index, which has x's rank and in the other axes at
// most its sizes, or no elements.
VOLTA_API Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index,
                        Place place = Place::here());
// Elements of x along the axis: in the other axes x and index broadcast, and negative indices count
// from the end. PyTorch's take_along_dim.
VOLTA_API Tensor take_along_axis(const Tensor& x, const Tensor& index, std::int64_t axis,
                                 Place place = Place::here());
// x with elements of source, or a number, written where gather would read. Of several written to
// one place the last in the order of index stays, on every device; only it gets the gradient.
VOLTA_API Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index,
                         const Operand& source);
// x with elements of source added where gather would read, in the order of index.
VOLTA_API Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index,
                             const Tensor& source, Place place = Place::here());
// x with a number, or a tensor of one element, where mask is true; both broadcast.
VOLTA_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);
// Results whose size depends on values are evaluated at the call, unless the size is given: what is
// too much is left out, what is missing is `fill`.
struct FixedSize {
  std::int64_t size;
  Scalar fill = 0;
};
// The elements of x where mask is true, [n]; both broadcast.
VOLTA_API Tensor masked_select(const Tensor& x, const Tensor& mask, Place place = Place::here());
VOLTA_API Tensor masked_select(const Tensor& x, const Tensor& mask, FixedSize options,
                               Place place = Place::here());
// The indices of elements that are not 0, in order: [n, rank], i64.
VOLTA_API Tensor nonzero(const Tensor& x, Place place = Place::here());
VOLTA_API Tensor nonzero(const Tensor& x, FixedSize options, Place place = Place::here());
// 1 at each index, 0 elsewhere, along a new last axis (i64). Classes -1: evaluates the largest.
VOLTA_API Tensor one_hot(const Tensor& index, std::int64_t classes = -1,
                         Place place = Place::here());
// Matrices with what is above (below) a diagonal set to 0; those right of the main one are
// positive.
VOLTA_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0, Place place = Place::here());
VOLTA_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0, Place place = Place::here());

// ---- Order. Equal elements keep theirs; NaN is greater than everything.
struct Sorted {
  Tensor values, indices;  // indices: i64, along the axis
};
struct SortOptions {
  bool descending = false;
};
VOLTA_API Sorted sort(const Tensor& x, std::int64_t axis = -1, SortOptions options = {},
                      Place place = Place::here());
VOLTA_API Tensor argsort(const Tensor& x, std::int64_t axis = -1, SortOptions options = {},
                         Place place = Place::here());
// The k largest (or smallest) elements along the axis, in order.
struct TopKOptions {
  bool largest = true;
};
VOLTA_API Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1,
                      TopKOptions options = {}, Place place = Place::here());

// ---- Normalisation and regularisation.
// Over the last axes, as many as `normalized` has; weight and bias may be undefined.
VOLTA_API Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                            const Tensor& bias = {}, double eps = 1e-5,
                            Place place = Place::here());
// Zeroes each element with probability p and scales the rest by 1 / (1 - p).
VOLTA_API Tensor dropout(const Tensor& x, double p, bool training = true,
                         Place place = Place::here());
VOLTA_API Tensor dropout(const Tensor& x, double p, bool training, const Generator& generator,
                         Place place = Place::here());

}  // namespace volta
