// Events, and values that are fetched asynchronously.
#include "volta/async.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "backend/fork_guard.h"
#include "backend/pinned_cache.h"
#include "backend/registry.h"
#include "core/convert.h"
#include "core/profiling.h"
#include "graph/record/apply.h"
#include "graph/record/evaluation.h"
#include "graph/record/node.h"
#include "graph/record/recorder.h"
#include "graph/record/recording_state.h"
#include "runtime/indices/index_checks.h"
#include "runtime/transfer/transfers.h"
#include "volta/error.h"
#include "volta/transfers.h"

namespace volta {

using graph::Node;
using graph::NodeState;

static_assert(kMaxStreams == static_cast<int>(kComputeStreams));

namespace {
int valid_stream(int stream) {
  if (stream >= 0 && stream < kMaxStreams) return stream;
  throw ArgumentError(
      fmt::format("StreamScope: there is no stream {}: they are 0 to {}", stream, kMaxStreams - 1));
}
}  // namespace

StreamScope::StreamScope(int stream, int exceptions)
    : Scope(graph::recording_state.stream, graph::recording_state.stream_scope,
            valid_stream(stream)),
      stream_(stream),
      exceptions_(exceptions) {}
void StreamScope::leave(int exceptions) noexcept {
  end(graph::recording_state.stream, graph::recording_state.stream_scope);
  if (stream_ != current_stream() && exceptions == exceptions_) graph::hand_over(stream_);
}
int current_stream() noexcept { return graph::recording_state.stream; }

namespace {

// Remembers the error that a wait found. The device reports a wrong index behind a parameter only
// once; later waits for the same event rethrow it from here.
class Finding {
 public:
  template <class Look>
  void look(Look look) const {
    const std::lock_guard guard(mutex_);
    if (error_) std::rethrow_exception(error_);
    try {
      look();
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }

 private:
  mutable std::mutex mutex_;  // always taken before the device's lock
  mutable std::exception_ptr error_;
};

}  // namespace

struct Event::State {
  // The part of one tensor: the events after which its value is available, and the indices it
  // depends on.
  struct Part {
    DeviceEntry* entry = nullptr;
    std::shared_ptr<const StreamEvent> computed, uploaded;
    std::shared_ptr<const graph::Dependence> indices;
  };
  std::vector<Part> parts;
  std::exception_ptr error;  // error of the submit
  Finding indices;
};

bool Event::done() const noexcept {
  if (state_ == nullptr || state_->error) return true;
  return std::ranges::all_of(state_->parts, [](const State::Part& part) {
    if (is_forked(*part.entry)) return true;  // a forked process never gets the value
    return (!part.computed || part.computed->has_passed()) &&
           (!part.uploaded || part.uploaded->has_passed());
  });
}

void Event::wait() const {
  if (state_ == nullptr) return;
  if (state_->error) std::rethrow_exception(state_->error);
  const profiling::HostSpan span("waiting for an event");
  for (const State::Part& part : state_->parts) {
    require_not_forked(*part.entry);
    if (part.uploaded) part.uploaded->wait();
    if (part.computed) part.computed->wait();
  }
  state_->indices.look([this] {
    for (const State::Part& part : state_->parts) {
      if (!part.indices) continue;
      const std::lock_guard guard(part.entry->lock);
      graph::verify_indices(*part.indices);
    }
  });
}

namespace {

// The stream times that the value of a submitted node waits for. The caller holds the device's
// lock.
StreamTimes times_of(const Node& node) {
  const bool computed = node.state.load(std::memory_order_acquire) == NodeState::Computed;
  return computed && node.buffer != nullptr ? node.buffer->times.get() : StreamTimes{};
}

}  // namespace

Event eval_async(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) graph::require_defined("eval_async", tensor);
  auto state = std::make_shared<Event::State>();
  try {
    for (const Tensor& tensor : tensors) graph::ensure_computed(graph::node_of(tensor));
    for (const Tensor& tensor : tensors) {
      const Node& node = *graph::node_of(tensor);
      DeviceEntry& entry = *node.entry;
      require_not_forked(entry);
      const std::lock_guard guard(entry.lock);
      graph::throw_known_index_error(node);
      const StreamTimes times = times_of(node);
      Event::State::Part part{&entry, entry.streams.computed(times.written),
                              entry.streams.uploaded(times.upload), nullptr};
      if (const auto* indices = node.indices()) part.indices = *indices;
      if (part.computed || part.uploaded || part.indices) state->parts.push_back(std::move(part));
    }
  } catch (...) {
    state->error = std::current_exception();
  }
  Event event;
  if (state->error || !state->parts.empty()) event.state_ = std::move(state);
  return event;
}

Event Tensor::eval_async() const { return volta::eval_async({this, 1}); }

namespace detail {

struct ValuesOnTheWay::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (arrived == nullptr || is_forked(*node->entry)) return;
    try {
      arrived->wait();
    } catch (...) {  // a lost device copies nothing
    }
  }

  std::size_t count = 0;
  DType dtype = DType::f32;
  graph::Held node;
  std::exception_ptr error;  // error of the submit
  Finding indices;
  std::span<const std::byte> bytes;
  // The destination of bytes that are still being copied.
  PinnedBlock pinned;
  std::unique_ptr<graph::HostCopy> pageable;
  std::shared_ptr<const StreamEvent> arrived;
};

namespace {

// Allocates page-locked host memory, or ordinary memory if there is none.
std::span<std::byte> host_memory(DeviceEntry& entry, std::size_t bytes, PinnedBlock& pinned,
                                 std::unique_ptr<graph::HostCopy>& pageable) {
  pinned = entry.pinned.take(bytes);
  if (pinned.memory() != nullptr) return {static_cast<std::byte*>(pinned.memory()), bytes};
  pageable = std::make_unique<graph::HostCopy>(bytes);
  return pageable->bytes;
}

}  // namespace

ValuesOnTheWay::ValuesOnTheWay(const Tensor& tensor, DType dtype, std::size_t element_bytes,
                               SourceLocation place) {
  graph::require_defined("to_vector_async", tensor, "this");
  graph::require_host_memory("to_vector_async", tensor, element_bytes);
  require_holds("to_vector_async", tensor.dtype(), dtype);
  const TransferReason reason("to_vector_async", place);
  Node* node = graph::node_of(tensor);
  auto state = std::make_shared<State>();
  state->node = graph::Held(node);
  state->dtype = node->dtype;
  state->count = static_cast<std::size_t>(node->shape.numel());
  const std::size_t bytes = state->count * size_of(node->dtype);
  DeviceEntry& entry = *node->entry;
  try {
    graph::ensure_computed(node);
    const std::lock_guard guard(entry.lock);
    graph::throw_known_index_error(*node);
    const bool is_here = entry.device.is_cpu() || node->host || bytes == 0 ||
                         node->state.load(std::memory_order_acquire) == NodeState::Constant;
    if (is_here) {
      state->bytes = graph::observe(node);
      if (node->buffer != nullptr &&
          node->buffer->foreign) {  // the owner may change the memory from now on
        state->pageable = std::make_unique<graph::HostCopy>(bytes);
        std::ranges::copy(state->bytes, state->pageable->bytes.begin());
        state->bytes = state->pageable->bytes;
      }
    } else {
      require_not_forked(entry);
      const std::span<std::byte> to = host_memory(entry, bytes, state->pinned, state->pageable);
      const Transfer transfer(Transfer::Direction::ToHost, entry.device, bytes);
      state->arrived = entry.streams.begin_download(to.data(), node->buffer->address,
                                                    node->buffer->times, bytes);
      state->bytes = to;
    }
  } catch (...) {
    state->error = std::current_exception();
  }
  state_ = std::move(state);
}

bool ValuesOnTheWay::done() const noexcept {
  return state_ == nullptr || state_->error || state_->arrived == nullptr ||
         is_forked(*state_->node->entry) || state_->arrived->has_passed();
}

void ValuesOnTheWay::wait() const {
  if (state_ == nullptr) return;
  if (state_->error) std::rethrow_exception(state_->error);
  if (state_->arrived) {
    require_not_forked(*state_->node->entry);
    const profiling::HostSpan span("waiting for values");
    state_->arrived->wait();
  }
  state_->indices.look([this] {
    const std::lock_guard guard(state_->node->entry->lock);
    graph::verify_indices(*state_->node.get());
  });
}

std::size_t ValuesOnTheWay::count() const noexcept { return state_ == nullptr ? 0 : state_->count; }

void ValuesOnTheWay::copy_to(DType dtype, void* values) const {
  wait();
  if (state_ != nullptr) convert(state_->bytes.data(), state_->dtype, values, dtype, state_->count);
}

}  // namespace detail
}  // namespace volta
