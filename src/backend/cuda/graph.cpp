// Capturing and launching CUDA graphs.
#include "backend/cuda/graph.h"

#include <utility>

namespace volta::cuda {

Graph::Graph(const Context& context, CUstream stream, const std::function<void()>& body)
    : context_(&context) {
  const Driver& cu = context.driver();
  // Thread-local mode: calls of other threads (allocating, loading) do not invalidate the capture.
  context.check(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                "beginning a capture");
  CUgraph captured = nullptr;
  try {
    body();
  } catch (...) {
    cu.cuStreamEndCapture(stream, &captured);
    if (captured != nullptr) cu.cuGraphDestroy(captured);
    throw;
  }
  context.check(cu.cuStreamEndCapture(stream, &captured), "ending a capture");
  const CUresult status = cu.cuGraphInstantiate(&graph_, captured, 0);
  cu.cuGraphDestroy(captured);
  context.check(status, "instantiating a graph");
}

Graph::Graph(Graph&& other) noexcept
    : context_(other.context_), graph_(std::exchange(other.graph_, nullptr)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  if (this != &other) {
    reset();
    context_ = other.context_;
    graph_ = std::exchange(other.graph_, nullptr);
  }
  return *this;
}

void Graph::launch(CUstream stream) const {
  context_->check(context_->driver().cuGraphLaunch(graph_, stream), "launching a graph");
}

void Graph::reset() noexcept {
  if (graph_ == nullptr) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().cuGraphExecDestroy(std::exchange(graph_, nullptr));
}

}  // namespace volta::cuda
