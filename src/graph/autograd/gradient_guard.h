// A lock for the gradient of a leaf.
#pragma once

#include <atomic>
#include <thread>

#include "graph/record/node.h"

namespace volta::graph {

// Several threads may add to the gradient of one leaf. They rarely meet, and only for a short time,
// so waiting threads spin.
class GradientGuard {
 public:
  explicit GradientGuard(Variable& leaf) : busy_(leaf.grad_busy) {
    while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  GradientGuard(const GradientGuard&) = delete;
  GradientGuard& operator=(const GradientGuard&) = delete;
  ~GradientGuard() { busy_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& busy_;
};

}  // namespace volta::graph
