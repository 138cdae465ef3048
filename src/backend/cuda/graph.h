// A CUDA graph made by capturing a stream, ready to launch.
#pragma once

#include <functional>

#include "backend/cuda/context.h"

namespace volta::cuda {

class Graph {
 public:
  Graph() = default;
  // Captures the work that `body` enqueues on `stream`. The context must be current. The stream
  // stays usable if `body` throws.
  Graph(const Context& context, CUstream stream, const std::function<void()>& body);
  ~Graph() { reset(); }
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  // Enqueues the whole graph.
  void launch(CUstream stream) const;

 private:
  void reset() noexcept;

  const Context* context_ = nullptr;
  CUgraphExec graph_ = nullptr;
};

}  // namespace volta::cuda
