// One thread at a time changes what a leaf has.
#pragma once

#include <atomic>
#include <thread>

#include "graph/node.h"

namespace volta::graph {

// Threads may give one leaf its gradients at a time. Hardly ever do two meet, and not for long.
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
