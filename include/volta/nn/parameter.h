// Parameter: a module's handle to one of its trainable tensors.
#pragma once

#include <memory>

#include "volta/tensor.h"

namespace volta::nn {

// Used wherever a Tensor is read. Copies, and copies of the module, refer to the same slot, so that
// tying one ties all.
class VOLTA_API Parameter {
 public:
  Parameter() = default;  // none, such as the bias of a layer without one

  bool defined() const { return slot_ != nullptr; }
  const Tensor& operator*() const { return slot_ ? **slot_ : none_; }
  const Tensor* operator->() const { return &**this; }
  operator const Tensor&() const { return **this; }  // NOLINT: implicit on purpose

  // From now on this parameter is `other`'s tensor. Modules list it once among their parameters and
  // under both names in their state. Optimizers built before keep the tensor that was here.
  void tie(const Parameter& other);

 private:
  friend class Module;
  using Slot = std::shared_ptr<Tensor>;  // tied slots hold the same Tensor
  explicit Parameter(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}

  static const Tensor none_;
  std::shared_ptr<Slot> slot_;
};

}  // namespace volta::nn
