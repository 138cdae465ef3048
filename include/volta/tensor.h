// Tensor: what users hold. A shared handle to a variable: copies of a Tensor see each other's
// in-place changes. Operations record what is to be computed; looking at a value computes
// everything pending. Threads may read a tensor at once, but not while one of them changes it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "volta/axes.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/generator.h"
#include "volta/scalar.h"
#include "volta/shape.h"
#include "volta/source_location.h"

namespace volta {

class Event;
class Tensor;
class Operand;
class Index;
class Selection;
template <class T>
class AsyncValues;
struct AvgPool2dOptions;
struct Extent2;
struct MaxPool2dOptions;

namespace graph {
struct GradientHook;
struct Variable;
struct TensorAccess;
}  // namespace graph

// How new tensors are made. Unset fields take the function's default: f32 on the CPU.
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  std::optional<Device> device = std::nullopt;
  bool requires_grad = false;
  Generator generator = {};  // for random tensors
};

struct BackwardOptions {
  bool retain_graph = false;  // keeps the history for another backward pass
  // The gradients get a history of their own, so that they can be differentiated; implies
  // retain_graph. A leaf and its gradient then keep each other alive until zero_grad(). grad() in
  // autograd.h avoids this.
  bool create_graph = false;
};

// A registered hook. Destroying the handle does not remove the hook.
class VOLTA_API HookHandle {
 public:
  HookHandle() = default;
  void remove();  // the hook is not called any more

 private:
  friend class Tensor;
  std::weak_ptr<graph::GradientHook> hook_;
};

struct VarOptions {
  double correction = 1;  // the sum of squares is divided by the number of elements minus this
  bool keepdim = false;
};

enum class PadMode : std::uint8_t {
  constant,
  reflect,    // mirrored at the border, without repeating it
  replicate,  // repeats the border
};
struct PadOptions {
  PadMode mode = PadMode::constant;
  Scalar value = 0;  // value of a constant border
};

struct GeluOptions {
  bool tanh = false;  // uses the approximation by tanh
};

class VOLTA_API Tensor {
 public:
  Tensor() noexcept = default;  // undefined: defined() is false
  Tensor(const Tensor& other) noexcept;
  Tensor(Tensor&& other) noexcept : variable_(other.variable_) { other.variable_ = nullptr; }
  Tensor(Selection&& selection);  // NOLINT: implicit on purpose; the value is recorded here
  // Assignment rebinds a name, so temporaries cannot be assigned to: x.narrow(...) is no part of x.
  // indexing.h has assignment to parts.
  Tensor& operator=(const Tensor& other) & noexcept;
  Tensor& operator=(Tensor&& other) & noexcept {
    if (this == &other) return *this;
    graph::Variable* previous = variable_;
    variable_ = other.variable_;
    other.variable_ = nullptr;
    if (previous != nullptr) drop(previous);
    return *this;
  }
  ~Tensor() {
    if (variable_ != nullptr) drop(variable_);
  }

  bool defined() const { return variable_ != nullptr; }
  explicit operator bool() const = delete;  // ambiguous: use defined() or item()

  const Shape& shape() const;
  std::int64_t size(std::int64_t axis) const;  // negative axes count from the end
  int rank() const { return shape().rank(); }
  std::int64_t numel() const { return shape().numel(); }
  DType dtype() const;
  Device device() const;

  // The elements of every tensor are contiguous, so this returns the tensor itself.
  Tensor contiguous() const { return *this; }

  // ---- Reading values. This computes everything that the thread still holds on the device.
  double item(SourceLocation place = SourceLocation::here()) const;  // for tensors of one element
  // Throws if T cannot hold the value exactly (floats may round to float).
  template <class T>
  T item(SourceLocation place = SourceLocation::here()) const;
  template <class T>  // T must hold every value of the dtype
  std::vector<T> to_vector(SourceLocation place = SourceLocation::here()) const;
  const Tensor& eval() const;  // computes without copying to the host
  // Starts the computation and returns without waiting; see async.h.
  Event eval_async() const;
  template <class T>
  AsyncValues<T> to_vector_async(SourceLocation place = SourceLocation::here()) const;
  // The values of a CPU tensor in row-major order, without a copy. They are valid and unchanged as
  // long as this tensor lives and is not changed in place. T is the dtype's own type, or std::byte
  // for the bytes of any dtype. The memory is read-only because other tensors may share it.
  template <class T>
  std::span<const T> span() const;
  bool is_pending() const;  // recorded but not computed

  // ---- Gradients.
  bool requires_grad() const;
  Tensor& set_requires_grad(bool value = true);  // leaves only
  bool is_leaf() const;
  Tensor grad() const;  // undefined until backward() reached this leaf
  void set_grad(const Tensor& gradient) const;
  void zero_grad() const;    // drops the gradient
  void retain_grad() const;  // makes backward() keep the grad() of a result, as it does for leaves
  // Calls the hook in backward() with the complete gradient of this tensor. The tensor that it
  // returns replaces the gradient, unless it is undefined or the hook returns nothing.
  template <class Hook>
  HookHandle register_hook(Hook hook) const {
    if constexpr (std::is_void_v<std::invoke_result_t<Hook&, const Tensor&>>) {
      return add_hook([hook = std::move(hook)](const Tensor& gradient) mutable {
        hook(gradient);
        return Tensor();
      });
    } else {
      return add_hook(std::move(hook));
    }
  }
  // Computes gradients of this scalar (or of the sum of this times `gradient`) and adds them to the
  // leaves' gradients.
  void backward(BackwardOptions options = {}, SourceLocation place = SourceLocation::here()) const;
  void backward(const Tensor& gradient, BackwardOptions options = {},
                SourceLocation place = SourceLocation::here()) const;
  Tensor detach() const;  // the same value without history

  // ---- Copies and conversions.
  Tensor to(Device device, SourceLocation place = SourceLocation::here()) const;
  Tensor to(DType dtype, SourceLocation place = SourceLocation::here()) const;
  Tensor clone(SourceLocation place = SourceLocation::here()) const;
  // Returns a copy of a CPU tensor in page-locked memory, from which to(gpu) copies at the full
  // speed of the bus, without history. Without a GPU, or if its driver has no such memory (OpenCL),
  // returns this tensor itself.
  Tensor pin_memory() const;

  // ---- In place. Every handle of this variable sees the new value. Results of operations,
  // including reshape() and narrow(), are variables of their own: writing to one does not change
  // its source. A value that is overwritten gets a gradient of zero.
  Tensor& operator+=(const Operand& other) &;
  Tensor& operator-=(const Operand& other) &;
  Tensor& operator*=(const Operand& other) &;
  Tensor& operator/=(const Operand& other) &;
  Tensor& fill_(Scalar value, SourceLocation place = SourceLocation::here()) &;
  Tensor& zero_(SourceLocation place = SourceLocation::here()) & { return fill_(0, place); }
  Tensor& copy_(const Tensor& source,
                SourceLocation place = SourceLocation::here()) &;  // the source broadcasts

  // ---- Parts, for reading and assignment. See indexing.h.
  Selection operator[](const Index& index) const;
  Selection index(std::initializer_list<Index> entries,
                  SourceLocation place = SourceLocation::here()) const;
  Selection index(std::span<const Index> entries,
                  SourceLocation place = SourceLocation::here()) const;
  // start:stop:step along an axis, as in Python; the step may be negative.
  Selection slice(std::int64_t axis, std::optional<std::int64_t> start = {},
                  std::optional<std::int64_t> stop = {}, std::int64_t step = 1,
                  SourceLocation place = SourceLocation::here()) const;

  // ---- Operations as methods. Each one is the free function of the same name in ops.h.

  // Generated from src/graph/record/elementwise.def by scripts/make_operations.py.

  Tensor mod(const Operand& other) const;
  Tensor fmod(const Operand& other) const;
  Tensor floor_div(const Operand& other) const;
  Tensor pow(const Operand& other) const;
  Tensor atan2(const Operand& other) const;
  Tensor maximum(const Operand& other) const;
  Tensor minimum(const Operand& other) const;
  Tensor lt(const Operand& other) const;
  Tensor le(const Operand& other) const;
  Tensor gt(const Operand& other) const;
  Tensor ge(const Operand& other) const;
  Tensor eq(const Operand& other) const;
  Tensor ne(const Operand& other) const;
  Tensor logical_and(const Operand& other) const;
  Tensor logical_or(const Operand& other) const;
  Tensor logical_xor(const Operand& other) const;
  Tensor lerp(const Operand& b, const Operand& weight) const;
  Tensor addcmul(const Operand& a, const Operand& b, Scalar value = 1,
                 SourceLocation place = SourceLocation::here()) const;
  Tensor addcdiv(const Operand& a, const Operand& b, Scalar value = 1,
                 SourceLocation place = SourceLocation::here()) const;
  Tensor clamp(const std::optional<Operand>& low, const std::optional<Operand>& high,
               SourceLocation place = SourceLocation::here()) const;
  Tensor neg(SourceLocation place = SourceLocation::here()) const;
  Tensor abs(SourceLocation place = SourceLocation::here()) const;
  Tensor sign(SourceLocation place = SourceLocation::here()) const;
  Tensor exp(SourceLocation place = SourceLocation::here()) const;
  Tensor exp2(SourceLocation place = SourceLocation::here()) const;
  Tensor expm1(SourceLocation place = SourceLocation::here()) const;
  Tensor log(SourceLocation place = SourceLocation::here()) const;
  Tensor log2(SourceLocation place = SourceLocation::here()) const;
  Tensor log10(SourceLocation place = SourceLocation::here()) const;
  Tensor log1p(SourceLocation place = SourceLocation::here()) const;
  Tensor sqrt(SourceLocation place = SourceLocation::here()) const;
  Tensor rsqrt(SourceLocation place = SourceLocation::here()) const;
  Tensor square(SourceLocation place = SourceLocation::here()) const;
  Tensor reciprocal(SourceLocation place = SourceLocation::here()) const;
  Tensor sin(SourceLocation place = SourceLocation::here()) const;
  Tensor cos(SourceLocation place = SourceLocation::here()) const;
  Tensor tan(SourceLocation place = SourceLocation::here()) const;
  Tensor asin(SourceLocation place = SourceLocation::here()) const;
  Tensor acos(SourceLocation place = SourceLocation::here()) const;
  Tensor atan(SourceLocation place = SourceLocation::here()) const;
  Tensor sinh(SourceLocation place = SourceLocation::here()) const;
  Tensor cosh(SourceLocation place = SourceLocation::here()) const;
  Tensor tanh(SourceLocation place = SourceLocation::here()) const;
  Tensor asinh(SourceLocation place = SourceLocation::here()) const;
  Tensor acosh(SourceLocation place = SourceLocation::here()) const;
  Tensor atanh(SourceLocation place = SourceLocation::here()) const;
  Tensor sigmoid(SourceLocation place = SourceLocation::here()) const;
  Tensor erf(SourceLocation place = SourceLocation::here()) const;
  Tensor erfc(SourceLocation place = SourceLocation::here()) const;
  Tensor floor(SourceLocation place = SourceLocation::here()) const;
  Tensor ceil(SourceLocation place = SourceLocation::here()) const;
  Tensor round(SourceLocation place = SourceLocation::here()) const;
  Tensor isnan(SourceLocation place = SourceLocation::here()) const;
  Tensor isinf(SourceLocation place = SourceLocation::here()) const;
  Tensor relu(SourceLocation place = SourceLocation::here()) const;
  Tensor gelu(SourceLocation place = SourceLocation::here()) const;
  Tensor gelu(GeluOptions options, SourceLocation place = SourceLocation::here()) const;
  Tensor silu(SourceLocation place = SourceLocation::here()) const;
  Tensor leaky_relu(double slope = 0.01, SourceLocation place = SourceLocation::here()) const;
  Tensor elu(double alpha = 1, SourceLocation place = SourceLocation::here()) const;
  Tensor softplus(double beta = 1, double threshold = 20,
                  SourceLocation place = SourceLocation::here()) const;
  Tensor mish(SourceLocation place = SourceLocation::here()) const;
  Tensor hardswish(SourceLocation place = SourceLocation::here()) const;
  Tensor logical_not(SourceLocation place = SourceLocation::here()) const;

  // End of the generated declarations.

  Tensor reshape(const Shape& shape, SourceLocation place = SourceLocation::here()) const;
  // One size may be -1 and is then computed.
  Tensor reshape(std::initializer_list<std::int64_t> sizes,
                 SourceLocation place = SourceLocation::here()) const;
  Tensor view(const Shape& shape, SourceLocation place = SourceLocation::here()) const;  // reshape
  Tensor view(std::initializer_list<std::int64_t> sizes,
              SourceLocation place = SourceLocation::here()) const;

  Tensor flatten(std::int64_t first = 0, std::int64_t last = -1,
                 SourceLocation place = SourceLocation::here()) const;
  // Splits one axis into several; one size may be -1 and is then computed.
  Tensor unflatten(std::int64_t axis, std::initializer_list<std::int64_t> sizes,
                   SourceLocation place = SourceLocation::here()) const;
  Tensor unflatten(std::int64_t axis, std::span<const std::int64_t> sizes,
                   SourceLocation place = SourceLocation::here()) const;

  Tensor permute(std::initializer_list<std::int64_t> order,
                 SourceLocation place = SourceLocation::here()) const;
  Tensor permute(std::span<const std::int64_t> order,
                 SourceLocation place = SourceLocation::here()) const;
  Tensor transpose(std::int64_t a, std::int64_t b,
                   SourceLocation place = SourceLocation::here()) const;
  Tensor t(SourceLocation place = SourceLocation::here()) const;  // transpose of a matrix
  Tensor expand(const Shape& shape, SourceLocation place = SourceLocation::here()) const;
  // A size of -1 keeps the size of the axis.
  Tensor expand(std::initializer_list<std::int64_t> sizes,
                SourceLocation place = SourceLocation::here()) const;

  // Removes all axes of size 1, or one axis if its size is 1.
  Tensor squeeze(SourceLocation place = SourceLocation::here()) const;
  Tensor squeeze(std::int64_t axis, SourceLocation place = SourceLocation::here()) const;
  Tensor unsqueeze(std::int64_t axis, SourceLocation place = SourceLocation::here()) const;
  Tensor narrow(std::int64_t axis, std::int64_t start, std::int64_t length,
                SourceLocation place = SourceLocation::here()) const;
  // Keeps, for each axis, the elements from `first` up to, but not including, `second`.
  Tensor shrink(std::initializer_list<std::pair<std::int64_t, std::int64_t>> ranges,
                SourceLocation place = SourceLocation::here()) const;
  Tensor shrink(std::span<const std::pair<std::int64_t, std::int64_t>> ranges,
                SourceLocation place = SourceLocation::here()) const;
  // Takes every step-th element, with a step for each axis. A negative step begins at the end.
  Tensor stride(std::initializer_list<std::int64_t> steps,
                SourceLocation place = SourceLocation::here()) const;
  Tensor stride(std::span<const std::int64_t> steps,
                SourceLocation place = SourceLocation::here()) const;

  Tensor flip(std::int64_t axis, SourceLocation place = SourceLocation::here()) const;
  Tensor flip(std::initializer_list<std::int64_t> axes,
              SourceLocation place = SourceLocation::here()) const;
  Tensor flip(std::span<const std::int64_t> axes,
              SourceLocation place = SourceLocation::here()) const;
  // Windows of `size` elements along an axis, `step` apart; their elements form a new last axis.
  Tensor unfold(std::int64_t axis, std::int64_t size, std::int64_t step,
                SourceLocation place = SourceLocation::here()) const;
  // Shifts elements along an axis; those that leave at one end enter at the other. Without axes,
  // all elements are shifted in row-major order.
  Tensor roll(std::int64_t shift, SourceLocation place = SourceLocation::here()) const;
  Tensor roll(std::int64_t shift, std::int64_t axis,
              SourceLocation place = SourceLocation::here()) const;
  Tensor roll(std::span<const std::int64_t> shifts, std::span<const std::int64_t> axes,
              SourceLocation place = SourceLocation::here()) const;
  Tensor roll(std::initializer_list<std::int64_t> shifts, std::initializer_list<std::int64_t> axes,
              SourceLocation place = SourceLocation::here()) const;
  // Repeats the whole tensor along each axis; more counts than axes add leading axes.
  Tensor repeat(std::initializer_list<std::int64_t> counts,
                SourceLocation place = SourceLocation::here()) const;
  Tensor repeat(std::span<const std::int64_t> counts,
                SourceLocation place = SourceLocation::here()) const;
  // Works like repeat(), but with any number of counts, which apply to the last axes.
  Tensor tile(std::initializer_list<std::int64_t> counts,
              SourceLocation place = SourceLocation::here()) const;
  Tensor tile(std::span<const std::int64_t> counts,
              SourceLocation place = SourceLocation::here()) const;
  // Repeats every element `count` times in a row. Without an axis, the flattened tensor is
  // repeated.
  Tensor repeat_interleave(std::int64_t count, std::optional<std::int64_t> axis = {},
                           SourceLocation place = SourceLocation::here()) const;
  // Adds elements before and after each axis, first axis first (torch's pad starts with the last
  // axis).
  Tensor pad(std::initializer_list<std::int64_t> before, std::initializer_list<std::int64_t> after,
             PadOptions options = {}, SourceLocation place = SourceLocation::here()) const;
  // Splits into parts of `size` along an axis, where the last part may be smaller, or of given
  // sizes.
  std::vector<Tensor> split(std::int64_t size, std::int64_t axis = 0,
                            SourceLocation place = SourceLocation::here()) const;
  std::vector<Tensor> split(std::initializer_list<std::int64_t> sizes, std::int64_t axis = 0,
                            SourceLocation place = SourceLocation::here()) const;
  std::vector<Tensor> split(std::span<const std::int64_t> sizes, std::int64_t axis = 0,
                            SourceLocation place = SourceLocation::here()) const;
  // Splits into at most `count` parts, all but the last equally long.
  std::vector<Tensor> chunk(std::int64_t count, std::int64_t axis = 0,
                            SourceLocation place = SourceLocation::here()) const;

  // Reduces all axes, one or several; with keepdim, reduced axes remain with size 1.
  Tensor sum(const Axes& axes = {}, bool keepdim = false,
             SourceLocation place = SourceLocation::here()) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false,
              SourceLocation place = SourceLocation::here()) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false,
              SourceLocation place = SourceLocation::here()) const;
  Tensor max(const Axes& axes = {}, bool keepdim = false,
             SourceLocation place = SourceLocation::here()) const;
  Tensor min(const Axes& axes = {}, bool keepdim = false,
             SourceLocation place = SourceLocation::here()) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false,
             SourceLocation place = SourceLocation::here()) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false,
             SourceLocation place = SourceLocation::here()) const;
  Tensor var(const Axes& axes = {}, VarOptions options = {},
             SourceLocation place = SourceLocation::here()) const;
  Tensor std(const Axes& axes = {}, VarOptions options = {},
             SourceLocation place = SourceLocation::here()) const;
  Tensor norm(double p = 2, const Axes& axes = {}, bool keepdim = false,
              SourceLocation place = SourceLocation::here()) const;
  Tensor logsumexp(const Axes& axes = {}, bool keepdim = false,
                   SourceLocation place = SourceLocation::here()) const;
  // The position along one axis, or among all elements in row-major order.
  Tensor argmax(std::optional<std::int64_t> axis = {}, bool keepdim = false,
                SourceLocation place = SourceLocation::here()) const;
  Tensor argmin(std::optional<std::int64_t> axis = {}, bool keepdim = false,
                SourceLocation place = SourceLocation::here()) const;
  // Pools images [n, channels, height, width]; see pooling.h.
  Tensor max_pool2d(Extent2 kernel, SourceLocation place = SourceLocation::here()) const;
  Tensor max_pool2d(Extent2 kernel, MaxPool2dOptions options,
                    SourceLocation place = SourceLocation::here()) const;
  Tensor avg_pool2d(Extent2 kernel, SourceLocation place = SourceLocation::here()) const;
  Tensor avg_pool2d(Extent2 kernel, AvgPool2dOptions options,
                    SourceLocation place = SourceLocation::here()) const;
  Tensor adaptive_avg_pool2d(Extent2 size, SourceLocation place = SourceLocation::here()) const;
  Tensor softmax(std::int64_t axis, SourceLocation place = SourceLocation::here()) const;
  Tensor log_softmax(std::int64_t axis, SourceLocation place = SourceLocation::here()) const;
  Tensor cumsum(std::int64_t axis, SourceLocation place = SourceLocation::here()) const;

  Tensor matmul(const Tensor& other, SourceLocation place = SourceLocation::here()) const;

 private:
  friend struct graph::TensorAccess;
  explicit Tensor(graph::Variable* variable) noexcept : variable_(variable) {}
  static void drop(graph::Variable* variable) noexcept;
  HookHandle add_hook(std::function<Tensor(const Tensor&)> hook) const;
  void item_into(DType dtype, void* value, SourceLocation place) const;
  void values_into(DType dtype, void* values, SourceLocation place) const;
  void require_host_memory(std::size_t element_bytes) const;
  const void* values_of(std::optional<DType> dtype) const;

  graph::Variable* variable_ = nullptr;
};

// A tensor or a number as one side of an operator, with the source location of the call.
class Operand {
 public:
  Operand(const Tensor& tensor,
          SourceLocation place = SourceLocation::here())  // NOLINT: implicit on purpose
      : tensor_(&tensor), scalar_(0), place_(place) {}
  Operand(Scalar scalar, SourceLocation place = SourceLocation::here())
      : scalar_(scalar), place_(place) {}  // NOLINT
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T number, SourceLocation place = SourceLocation::here())
      : scalar_(number), place_(place) {}  // NOLINT

  bool is_scalar() const { return tensor_ == nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  Scalar scalar() const { return scalar_; }
  SourceLocation place() const { return place_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar scalar_;
  SourceLocation place_;
};

VOLTA_API Tensor operator+(const Operand& a, const Operand& b);
VOLTA_API Tensor operator-(const Operand& a, const Operand& b);
VOLTA_API Tensor operator*(const Operand& a, const Operand& b);
VOLTA_API Tensor operator/(const Operand& a, const Operand& b);
VOLTA_API Tensor operator%(const Operand& a, const Operand& b);  // has the sign of b, as in Python
VOLTA_API Tensor operator<(const Operand& a, const Operand& b);
VOLTA_API Tensor operator<=(const Operand& a, const Operand& b);
VOLTA_API Tensor operator>(const Operand& a, const Operand& b);
VOLTA_API Tensor operator>=(const Operand& a, const Operand& b);
VOLTA_API Tensor operator-(const Tensor& a);

// Prints values as nested rows, shortening long ones, then dtype and device unless f32 and the CPU.
VOLTA_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// Gives the variable a new value, which every handle sees. The device and dtype may change, but not
// the shape. requires_grad and the gradient stay, and no history is recorded.
VOLTA_API void assign(Tensor& variable, const Tensor& value);

template <class T>
T Tensor::item(SourceLocation place) const {
  T value;
  item_into(dtype_of<T>::value, &value, place);
  return value;
}

template <class T>
std::vector<T> Tensor::to_vector(SourceLocation place) const {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes = to_vector<std::uint8_t>(place);
    return std::vector<bool>(bytes.begin(), bytes.end());
  } else {
    require_host_memory(sizeof(T));
    std::vector<T> values(static_cast<std::size_t>(numel()));
    values_into(dtype_of<T>::value, values.data(), place);
    return values;
  }
}

template <class T>
std::span<const T> Tensor::span() const {
  if constexpr (std::is_same_v<T, std::byte>) {
    const void* values = values_of(std::nullopt);
    return {static_cast<const T*>(values), static_cast<std::size_t>(numel()) * size_of(dtype())};
  } else {
    const void* values = values_of(dtype_of<T>::value);
    return {static_cast<const T*>(values), static_cast<std::size_t>(numel())};
  }
}

}  // namespace volta

#include "volta/indexing.h"  // what the methods above return
