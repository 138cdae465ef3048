// Work that goes on while the program does. A device computes, and copies in both directions, at
// the same time; these functions start such work and return what can be asked or waited for. On the
// CPU everything has been done when they return.
//
// What goes wrong on the way - no memory, an index out of range, a lost device - reaches whoever
// looks next: wait(), get(), or the tensor itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/place.h"
#include "volta/scope.h"
#include "volta/tensor.h"

namespace volta {

// A moment of the device's work. Copies are of the same moment; it does not keep the tensors, and
// needs them no more. Any thread may ask, several at once and as often as they like.
class VOLTA_API Event {
 public:
  Event() noexcept = default;  // has happened
  bool done() const noexcept;  // has happened, or failed
  void wait() const;           // throws what went wrong

 private:
  friend VOLTA_API Event eval_async(std::span<const Tensor> tensors);
  struct State;
  std::shared_ptr<const State> state_;
};

// Submits what computes the tensors and returns without waiting; the event is when all of them have
// their values. Tensors of several devices are computed side by side.
VOLTA_API Event eval_async(std::span<const Tensor> tensors);

// A device computes in several streams side by side: work of one waits for what it needs of another
// and for nothing else, so that two models may train, or answer, at the same time. What a thread
// records, in passes backward and optimizers too, goes into the stream of the innermost scope, into
// stream 0 where there is none. Values are used in any stream as they are. Which thread records in
// which stream is the program's choice; what one thread records for one stream keeps its order. On
// the CPU streams run one after the other.
inline constexpr int kMaxStreams = 4;
class VOLTA_API StreamScope : public Scope<int> {
 public:
  explicit StreamScope(int stream)  // 0 to kMaxStreams - 1
      : StreamScope(stream, std::uncaught_exceptions()) {}
  // Hands over what is pending in the stream, unless by an exception; errors are told to whoever
  // looks at the values.
  ~StreamScope() { leave(std::uncaught_exceptions()); }

 private:
  // The program counts its exceptions: with some compilers a library does not see those of others.
  StreamScope(int stream, int exceptions);
  void leave(int exceptions) noexcept;

  int stream_, exceptions_;
};
VOLTA_API int current_stream() noexcept;

namespace detail {

// Values on their way to the host, and what keeps their memory.
class VOLTA_API ValuesOnTheWay {
 public:
  ValuesOnTheWay() noexcept = default;
  ValuesOnTheWay(const Tensor& tensor, DType dtype, std::size_t element_bytes, Place place);

  bool done() const noexcept;
  void wait() const;
  std::size_t count() const noexcept;
  void copy_to(DType dtype, void* values) const;  // waits

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// How elements of T are read: bool as bytes.
template <class T>
using ElementOf = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

}  // namespace detail

// What to_vector_async() began: the values that the tensor had at the call, whatever is assigned to
// it since. Copies share them. Until they have arrived the tensor's memory is not used again; the
// last copy to go waits for them.
template <class T>
class AsyncValues {
 public:
  AsyncValues() noexcept = default;  // no values
  bool done() const noexcept { return values_.done(); }
  void wait() const { values_.wait(); }
  // Waits; throws what went wrong. May be called again.
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
AsyncValues<T> Tensor::to_vector_async(Place place) const {
  using Element = detail::ElementOf<T>;
  return AsyncValues<T>(
      detail::ValuesOnTheWay(*this, dtype_of<Element>::value, sizeof(Element), place));
}

}  // namespace volta
