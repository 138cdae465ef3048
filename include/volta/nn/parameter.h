// Parameter and Buffer: a module's handles to its tensors, those that are trained and those that
// are only kept.
#pragma once

#include <memory>
#include <utility>

#include "volta/nn/shared.h"
#include "volta/tensor.h"

namespace volta::nn {

// Used wherever a Tensor is read. Copies, and copies of the module, refer to the same slot, so that
// tying one ties all.
class VOLTA_API Parameter {
 public:
  Parameter() = default;  // none, such as the bias of a layer without one

  bool defined() const { return static_cast<bool>(slot_); }
  const Tensor& operator*() const { return slot_ ? **slot_ : none_; }
  // weight->set_requires_grad(false) freezes it.
  Tensor* operator->() const { return slot_ ? slot_->get() : &none_; }
  operator const Tensor&() const { return **this; }  // NOLINT: implicit on purpose

  // From now on this parameter is `other`'s tensor. Modules list it once among their parameters and
  // under both names in their state. Optimizers built before keep the tensor that was here.
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
  Buffer() = default;  // none

  bool defined() const { return static_cast<bool>(tensor_); }
  const Tensor& operator*() const;
  const Tensor* operator->() const { return &**this; }
  operator const Tensor&() const { return **this; }  // NOLINT: implicit on purpose

  // Gives it another value of the same shape, dtype and device, detached; every handle sees it.
  void set(const Tensor& value) const;

 private:
  friend class Module;
  explicit Buffer(detail::Shared<Tensor> tensor) : tensor_(std::move(tensor)) {}

  detail::Shared<Tensor> tensor_;
};

}  // namespace volta::nn
