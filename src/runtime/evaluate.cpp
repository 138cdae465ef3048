// The public functions that evaluate: eval(), submit() and synchronize().
#include <exception>
#include <mutex>

#include "backend/registry.h"
#include "graph/record/apply.h"
#include "graph/record/evaluation.h"
#include "graph/record/recorder.h"
#include "runtime/indices/index_checks.h"
#include "volta/execution.h"
#include "volta/tensor.h"

namespace volta {

using graph::node_of;

const Tensor& Tensor::eval() const {
  graph::require_defined("eval", *this, "this");
  graph::Node* node = node_of(*this);
  graph::ensure_computed(node);
  const std::lock_guard guard(node->entry->lock);
  graph::throw_known_index_error(*node);
  return *this;
}

void submit(Device device) { graph::submit(device_entry(device)); }

void synchronize(Device device) {
  DeviceEntry& entry = device_entry(device);
  std::exception_ptr error;
  try {
    graph::submit_all(entry);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard guard(entry.lock);
  entry.backend.synchronize(entry.index);
  if (error) std::rethrow_exception(error);
  graph::check_device_error(entry);
}

}  // namespace volta
