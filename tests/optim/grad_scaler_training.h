// A small training for tests of GradScaler, and functions that count its work.
#pragma once

#include <limits>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::scaling {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline TensorOptions on_device(bool requires_grad = false) {
  return {.device = test_device(), .requires_grad = requires_grad};
}

inline std::vector<double> values_of(const Tensor& tensor) { return tensor.to_vector<double>(); }

// A layer for which the test decides whether its gradients are finite.
struct Training {
  std::vector<Tensor> parameters;
  Tensor x = ones({4, 16}, on_device());
  Tensor factor;  // factor on the loss; an infinite one makes every gradient infinite

  explicit Training(int layers) {
    for (int i = 0; i < layers; ++i) {
      parameters.push_back(full({16, 16}, 0.05 + 0.001 * i, on_device(true)));
      parameters.push_back(full({16}, 0.01, on_device(true)));
    }
    x.eval();
    set_finite(true);
  }
  Tensor loss() const {
    Tensor h = x;
    for (std::size_t i = 0; i < parameters.size(); i += 2)
      h = tanh(linear(h, parameters[i], parameters[i + 1]));
    return h.mean() * factor;
  }
  void set_finite(bool finite) {
    factor = from_vector(std::vector<float>{finite ? 1.0f : kInf}, Shape{}, on_device());
  }
  void iterate(GradScaler& scaler, optim::Optimizer& optimizer) const {
    optimizer.zero_grad();
    scaler.scale(loss()).backward();
    scaler.step(optimizer);
    scaler.update();
  }
};

// Does not wait, because that would evaluate what update() recorded.
template <class Action>
Counters counted(Action action) {
  const Counters before = counters();
  action();
  Counters delta = counters();
  delta.submits -= before.submits;
  delta.plans_built -= before.plans_built;
  delta.compilations -= before.compilations;
  delta.launches -= before.launches;
  delta.library_calls -= before.library_calls;
  delta.transfers -= before.transfers;
  delta.bytes_to_host -= before.bytes_to_host;
  delta.allocations -= before.allocations;
  return delta;
}

}  // namespace volta::scaling
