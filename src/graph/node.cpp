// Reference counts, node and buffer memory.
#include "graph/node.h"

#include <mutex>
#include <utility>

#include "backend/pool.h"
#include "core/registry.h"
#include "core/slab.h"
#include "graph/segment.h"

namespace volta::graph {
namespace {

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
  const Address address = entry.pool.allocate(bytes == 0 ? 1 : bytes);
  Buffer* buffer = Slab<Buffer>::make();
  buffer->entry = &entry;
  buffer->bytes = bytes;
  buffer->address = address;
  return buffer;
}

void release(Buffer* buffer) noexcept {
  if (buffer->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (buffer->pool_owned) {
    buffer->entry->pool.release(buffer->address);
  } else if (buffer->deleter) {
    buffer->deleter();
  }
  Slab<Buffer>::destroy(buffer);
}

Node* new_node() { return Slab<Node>::make(); }
Tape* new_tape() { return Slab<Tape>::make(); }
Variable* new_variable() { return Slab<Variable>::make(); }

void release(Variable* variable) noexcept {
  if (variable->refs.fetch_sub(1, std::memory_order_acq_rel) == 1)
    Slab<Variable>::destroy(variable);
}

void retain(Node* node) { node->refs.fetch_add(1, std::memory_order_relaxed); }

void release(Node* node) noexcept {
  if (node->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (node->buffer) release(node->buffer);
  Slab<Node>::destroy(node);
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
  Tape* dead = tape;  // linked through `next_dead`
  tape->next_dead = nullptr;
  while (dead != nullptr) {
    Tape* last = std::exchange(dead, dead->next_dead);
    for (Edge& edge : last->edges) {
      Tape* next = edge.tape.take();
      if (next == nullptr || next->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      next->next_dead = dead;
      dead = next;
    }
    Slab<Tape>::destroy(last);
  }
}

Tensor TensorAccess::from_node(Node* node) {
  Variable* variable = new_variable();
  variable->node = Held(node);
  return wrap(variable);
}

}  // namespace volta::graph
