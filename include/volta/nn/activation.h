// Activations as modules, for Sequential; each is the function of the same name in ops.h.
#pragma once

#include <cstdint>

#include "volta/nn/module.h"

namespace volta::nn {

class VOLTA_API ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API GELU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Softmax : public Module {
 public:
  explicit Softmax(std::int64_t axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t axis_;
};

class VOLTA_API LogSoftmax : public Module {
 public:
  explicit LogSoftmax(std::int64_t axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t axis_;
};

}  // namespace volta::nn
