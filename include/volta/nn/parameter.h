// Parameter and Buffer: a module's handles to its tensors, those that are trained and those that
// are not.
#pragma once

#include <memory>
#include <utility>

#include "volta/detail/shared_part.h"
#include "volta/tensor.h"

namespace volta::nn {

// A parameter can be used wherever a Tensor is read. Copies, also in copies of the module, refer to
// the same slot, so tying one ties all of them.
class VOLTA_API Parameter {
 public:
  Parameter() = default;  // no parameter, such as the bias of a layer without one

  bool defined() const { return static_cast<bool>(slot_); }
  const Tensor& operator*() const { return slot_ ? **slot_ : none_; }
  // For example, weight->set_requires_grad(false) freezes the parameter.
  Tensor* operator->() const { return slot_ ? slot_->get() : &none_; }
  operator const Tensor&() const { return **this; }  // NOLINT: implicit on purpose

  // Makes this parameter share the tensor of `other`. Modules list it once among their parameters,
  // and under both names in their state. Optimizers made before keep the former tensor.
  void tie(const Parameter& other);

 private:
  friend class Module;
  using Slot = detail::Shared<Tensor>;  // tied slots hold the same Tensor
  explicit Parameter(detail::Shared<Slot> slot) : slot_(std::move(slot)) {}

  static Tensor none_;
  detail::Shared<Slot> slot_;
};

// A tensor that is saved and moved with its module but not trained, such as running statistics.
class VOLTA_API Buffer {
 public:
  Buffer() = default;  // no buffer

  bool defined() const { return static_cast<bool>(tensor_); }
  const Tensor& operator*() const;
  const Tensor* operator->() const { return &**this; }
  operator const Tensor&() const { return **this; }  // NOLINT: implicit on purpose

  // Sets a value of the same shape, dtype and device, detached. All handles see it.
  void set(const Tensor& value) const;

 private:
  friend class Module;
  explicit Buffer(detail::Shared<Tensor> tensor) : tensor_(std::move(tensor)) {}

  detail::Shared<Tensor> tensor_;
};

}  // namespace volta::nn
