// Activations as modules.
#include "volta/nn/activation.h"

#include "volta/ops.h"

namespace volta::nn {

Tensor ReLU::forward(const Tensor& x) { return relu(x); }
Tensor Tanh::forward(const Tensor& x) { return tanh(x); }
Tensor Sigmoid::forward(const Tensor& x) { return sigmoid(x); }
Tensor GELU::forward(const Tensor& x) { return gelu(x); }
Tensor SiLU::forward(const Tensor& x) { return silu(x); }
Tensor Softmax::forward(const Tensor& x) { return softmax(x, axis_); }
Tensor LogSoftmax::forward(const Tensor& x) { return log_softmax(x, axis_); }

}  // namespace volta::nn
