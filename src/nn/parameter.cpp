// Tied parameters, and assignment to buffers.
#include "volta/nn/parameter.h"

#include <fmt/format.h>

#include "volta/autograd.h"
#include "volta/error.h"

namespace volta::nn {

Tensor Parameter::none_;

void Parameter::tie(const Parameter& other) {
  if (!defined() || !other.defined()) throw ArgumentError("tie: a parameter is undefined");
  const Tensor& mine = **this;
  const Tensor& theirs = *other;
  if (mine.shape() != theirs.shape()) {
    throw ShapeError(fmt::format("tie: shapes differ: {} and {}", to_string(mine.shape()),
                                 to_string(theirs.shape())));
  }
  if (mine.dtype() != theirs.dtype()) {
    throw DTypeError(fmt::format("tie: dtypes differ: {} and {}", name_of(mine.dtype()),
                                 name_of(theirs.dtype())));
  }
  *slot_ = *other.slot_;
}

const Tensor& Buffer::operator*() const {
  static const Tensor none;
  return tensor_ ? *tensor_ : none;
}

void Buffer::set(const Tensor& value) const {
  if (!defined()) throw ArgumentError("Buffer::set: the buffer is undefined");
  if (value.dtype() != (*tensor_).dtype()) {
    throw DTypeError(fmt::format("Buffer::set: the buffer is {}, the value {}",
                                 name_of((*tensor_).dtype()), name_of(value.dtype())));
  }
  NoGrad no_grad;
  assign(*tensor_, value.detach());
}

}  // namespace volta::nn
