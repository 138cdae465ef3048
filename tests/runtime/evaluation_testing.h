// A model and counters for the tests of evaluation.
#pragma once

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::evaluation_testing {

inline TensorOptions on_device(bool grad = false) {
  return {.device = test_device(), .requires_grad = grad};
}

// Returns what an action adds to the counters.
template <class Action>
Counters counted(Action action) {
  synchronize(test_device());
  const Counters before = counters();
  action();
  synchronize(test_device());
  const Counters after = counters();
  Counters delta;
  delta.submits = after.submits - before.submits;
  delta.plans_built = after.plans_built - before.plans_built;
  delta.compilations = after.compilations - before.compilations;
  delta.launches = after.launches - before.launches;
  delta.library_calls = after.library_calls - before.library_calls;
  delta.transfers = after.transfers - before.transfers;
  delta.bytes_to_device = after.bytes_to_device - before.bytes_to_device;
  delta.bytes_to_host = after.bytes_to_host - before.bytes_to_host;
  delta.allocations = after.allocations - before.allocations;
  return delta;
}

struct Xor {
  nn::Sequential model{{{"fc1", nn::Linear(2, 8)}, {"act", nn::ReLU()}, {"fc2", nn::Linear(8, 1)}}};
  Tensor x, y;
  optim::Adam optimizer;

  Xor()
      : x(tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, on_device())),
        y(tensor({0, 1, 1, 0}, {4, 1}, on_device())),
        optimizer((model.to(test_device()), model.parameters()), {.lr = 0.05}) {}

  Tensor step() {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  }
};

}  // namespace volta::evaluation_testing
