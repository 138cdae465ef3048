// Deep copies.
#include "volta/detail/shared_part.h"

#include "volta/autograd.h"
#include "volta/ops.h"

namespace volta::nn::detail {

namespace {
thread_local Cloning* cloning = nullptr;
}

Cloning::Cloning() : outer_(cloning) { cloning = this; }
Cloning::~Cloning() { cloning = outer_; }
Cloning* Cloning::current() { return cloning; }

Tensor copied(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  NoGrad no_grad;
  Tensor copy = tensor.detach().clone();
  copy.set_requires_grad(tensor.requires_grad());
  return copy;
}

}  // namespace volta::nn::detail
