// Asynchronous work. A device computes and copies in both directions while the program continues;
// these functions start such work and return an object to poll or wait for. On the CPU all work is
// done when they return.
//
// Errors on the way, such as lack of memory, an index out of range or a lost device, are reported
// by the next access: wait(), get(), or the tensor itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "volta/detail/scope.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/source_location.h"
#include "volta/tensor.h"

namespace volta {

// A point in a device's work. Copies refer to the same point. An event keeps no tensors alive and
// does not depend on them. Several threads may use it at once.
class VOLTA_API Event {
 public:
  Event() noexcept = default;  // an event that has already occurred
  bool done() const noexcept;  // whether the work is finished or has failed
  void wait() const;           // throws the error, if there was one

 private:
  friend VOLTA_API Event eval_async(std::span<const Tensor> tensors);
  struct State;
  std::shared_ptr<const State> state_;
};

// Submits the computation of the tensors and returns without waiting. The event is over when all of
// them have their values. Tensors on several devices are computed concurrently.
VOLTA_API Event eval_async(std::span<const Tensor> tensors);

// A device runs several streams concurrently. Work in one stream waits only for the values that it
// needs from another, so two models can train or answer at the same time. Operations that a thread
// records, including backward passes and optimizer steps, go to the stream of the innermost scope,
// or to stream 0. Values may be used in any stream. Any thread may use any stream, and the work of
// one thread in one stream keeps its order. On the CPU streams run one after the other.
inline constexpr int kMaxStreams = 4;
class VOLTA_API StreamScope : public Scope<int> {
 public:
  explicit StreamScope(int stream)  // 0 to kMaxStreams - 1
      : StreamScope(stream, std::uncaught_exceptions()) {}
  // Submits the pending work of the stream, unless an exception ended the scope. Errors are
  // reported when the values are used.
  ~StreamScope() { leave(std::uncaught_exceptions()); }

 private:
  // The program counts its exceptions, because with some compilers a library does not see them.
  StreamScope(int stream, int exceptions);
  void leave(int exceptions) noexcept;

  int stream_, exceptions_;
};
VOLTA_API int current_stream() noexcept;

namespace detail {

// Values that are being copied to the host, with the owner of their memory.
class VOLTA_API ValuesOnTheWay {
 public:
  ValuesOnTheWay() noexcept = default;
  ValuesOnTheWay(const Tensor& tensor, DType dtype, std::size_t element_bytes,
                 SourceLocation place);

  bool done() const noexcept;
  void wait() const;
  std::size_t count() const noexcept;
  void copy_to(DType dtype, void* values) const;  // waits

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// The type in which elements of T are read; bool is read as bytes.
template <class T>
using ElementOf = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

}  // namespace detail

// The result of to_vector_async(): the values that the tensor had at the call, whatever is assigned
// to it later. Copies share the values. The tensor's memory is not reused before they have arrived;
// the destructor of the last copy waits for them.
template <class T>
class AsyncValues {
 public:
  AsyncValues() noexcept = default;  // no values
  bool done() const noexcept { return values_.done(); }
  void wait() const { values_.wait(); }
  // Waits for the values and throws the error, if there was one. May be called repeatedly.
  std::vector<T> get() const {
    using Element = detail::ElementOf<T>;
    std::vector<Element> elements(values_.count());
    values_.copy_to(dtype_of<Element>::value, elements.data());
    if constexpr (std::is_same_v<T, bool>) {
      return std::vector<bool>(elements.begin(), elements.end());
    } else {
      return elements;
    }
  }

 private:
  friend class Tensor;
  explicit AsyncValues(detail::ValuesOnTheWay values) : values_(std::move(values)) {}
  detail::ValuesOnTheWay values_;
};

template <class T>
AsyncValues<T> Tensor::to_vector_async(SourceLocation place) const {
  using Element = detail::ElementOf<T>;
  return AsyncValues<T>(
      detail::ValuesOnTheWay(*this, dtype_of<Element>::value, sizeof(Element), place));
}

}  // namespace volta
