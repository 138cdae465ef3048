// Reference counts, node and buffer memory.
#include "graph/node.h"

#include <mutex>
#include <utility>

#include "backend/pool.h"
#include "core/registry.h"
#include "graph/segment.h"

namespace volta::graph {
namespace {

// Nodes are recycled through a list per thread; a list that ends gives its nodes to the global one.
struct GlobalNodes {
  std::mutex mutex;
  std::vector<Node*> free;
};
GlobalNodes& global_nodes() {
  static auto* nodes = new GlobalNodes;  // outlives every tensor with static storage
  return *nodes;
}

struct ThreadNodes {
  std::vector<Node*> free;
  ~ThreadNodes();
};
thread_local ThreadNodes* thread_nodes = nullptr;
thread_local bool thread_ended = false;

ThreadNodes::~ThreadNodes() {
  auto& global = global_nodes();
  const std::lock_guard guard(global.mutex);
  global.free.insert(global.free.end(), free.begin(), free.end());
}

struct ThreadNodesOwner {
  ThreadNodesOwner() { thread_nodes = new ThreadNodes; }
  ~ThreadNodesOwner() {
    delete std::exchange(thread_nodes, nullptr);
    thread_ended = true;
  }
};

ThreadNodes* local_nodes() {
  if (thread_nodes == nullptr && !thread_ended) {
    thread_local ThreadNodesOwner owner;
  }
  return thread_nodes;
}

constexpr std::size_t kNodesPerBlock = 128;

void free_node(Node* node) {
  if (node->buffer) release(node->buffer);
  node->~Node();
  if (ThreadNodes* local = local_nodes()) {
    local->free.push_back(node);
  } else {
    auto& global = global_nodes();
    const std::lock_guard guard(global.mutex);
    global.free.push_back(node);
  }
}

// A pending node's value became wanted, or no longer wanted.
void live_changed(Node* node) {
  Segment* segment = node->segment.load(std::memory_order_acquire);
  if (segment == nullptr) return;
  const std::lock_guard guard(segment->lock);
  if (node->segment.load(std::memory_order_relaxed) != segment) return;
  const bool live = node->holders.load(std::memory_order_acquire) > 0;
  if (live == node->live) return;
  node->live = live;
  segment->batch.live ^= live_word(node->index);
}

}  // namespace

Buffer* allocate_buffer(DeviceEntry& entry, std::size_t bytes) {
  auto buffer = std::make_unique<Buffer>();
  buffer->entry = &entry;
  buffer->bytes = bytes;
  buffer->address = entry.pool.allocate(bytes == 0 ? 1 : bytes);
  return buffer.release();
}

void release(Buffer* buffer) noexcept {
  if (buffer->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (buffer->pool_owned) {
    buffer->entry->pool.release(buffer->address);
  } else if (buffer->deleter) {
    buffer->deleter();
  }
  delete buffer;
}

Node* new_node() {
  ThreadNodes* local = local_nodes();
  if (local == nullptr || local->free.empty()) {
    auto& global = global_nodes();
    const std::lock_guard guard(global.mutex);
    if (global.free.empty()) {
      auto* block = static_cast<Node*>(::operator new(sizeof(Node) * kNodesPerBlock));
      for (std::size_t i = 0; i < kNodesPerBlock; ++i) global.free.push_back(block + i);
    }
    if (local == nullptr) {
      Node* node = global.free.back();
      global.free.pop_back();
      return new (node) Node;
    }
    const std::size_t moved = std::min(global.free.size(), kNodesPerBlock);
    local->free.insert(local->free.end(), global.free.end() - static_cast<std::ptrdiff_t>(moved),
                       global.free.end());
    global.free.resize(global.free.size() - moved);
  }
  Node* node = local->free.back();
  local->free.pop_back();
  return new (node) Node;
}

void retain(Node* node) { node->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Node* node) noexcept {
  if (node->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) free_node(node);
}

void hold(Node* node) {
  retain(node);
  if (node->holders.fetch_add(1, std::memory_order_acq_rel) == 0) live_changed(node);
}

void unhold(Node* node) noexcept {
  if (node->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) live_changed(node);
  release(node);
}

void retain(Tape* tape) { tape->refs.fetch_add(1, std::memory_order_relaxed); }

// Chains of records are as long as programs: freed by a list, not by recursion.
void release(Tape* tape) noexcept {
  if (tape->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::vector<Tape*> dead{tape};
  while (!dead.empty()) {
    Tape* last = dead.back();
    dead.pop_back();
    for (Edge& edge : last->edges) {
      Tape* next = edge.tape.take();
      if (next != nullptr && next->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) dead.push_back(next);
    }
    delete last;
  }
}

Tensor TensorAccess::from_node(Node* node) {
  auto* variable = new Variable;
  variable->node = Held(node);
  return wrap(variable);
}

}  // namespace volta::graph
