// Activations as modules, for Sequential. Each one is the function of the same name in ops.h unless
// its comment says otherwise.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

class VOLTA_API ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// min(max(x, 0), 6)
class VOLTA_API ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override;

 private:
  double slope_;
};

struct PReLUOptions {
  double init = 0.25;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
// x where it is positive, else x times a learned slope: one for all elements, or one for each
// channel of [n, channels, ...].
class VOLTA_API PReLU : public Module {
 public:
  explicit PReLU(std::int64_t num_parameters = 1, PReLUOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [num_parameters], initially `init`
};

class VOLTA_API ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override;

 private:
  double alpha_;
};

// An elu scaled so that it preserves mean 0 and variance 1.
class VOLTA_API SELU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API GELU : public Module {
 public:
  explicit GELU(GeluOptions options = {}) : options_(options) {}
  Tensor forward(const Tensor& x) override;

 private:
  GeluOptions options_;
};

class VOLTA_API SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Mish : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Softplus : public Module {
 public:
  explicit Softplus(double beta = 1, double threshold = 20) : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override;

 private:
  double beta_, threshold_;
};

// x / (1 + |x|)
class VOLTA_API Softsign : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// log(sigmoid(x))
class VOLTA_API LogSigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// (x + 3) / 6, clamped to [0, 1]
class VOLTA_API Hardsigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Hardswish : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class VOLTA_API Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// x clamped to two bounds
class VOLTA_API Hardtanh : public Module {
 public:
  explicit Hardtanh(double min_val = -1, double max_val = 1);
  Tensor forward(const Tensor& x) override;

 private:
  double min_, max_;
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

// The first half of an axis times the sigmoid of the second half.
class VOLTA_API GLU : public Module {
 public:
  explicit GLU(std::int64_t axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t axis_;
};

}  // namespace volta::nn
