// Which nodes have copies, and letting go of them.
#include "graph/mirrors.h"

#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "platform/fork.h"

namespace volta::graph {
namespace {

// Outlives the tensors of static objects.
struct Mirrored {
  platform::ForkMutex lock;
  std::unordered_set<Node*> nodes;  // whose copies are not on the CPU
};
Mirrored& mirrored() {
  static auto* table = new Mirrored;
  return *table;
}

bool is_listed(const Node* mirror) { return mirror != nullptr && !mirror->entry->device.is_cpu(); }

// The former one, for the caller to let go of when nothing is locked. The pointer is written last:
// a node that has none may die without asking for the lock.
Node* exchanged(Mirrored& table, Node* node, Node* mirror) {
  Node* const former = node->mirror.load(std::memory_order_relaxed);
  if (is_listed(mirror)) {
    table.nodes.insert(node);
  } else if (is_listed(former)) {
    table.nodes.erase(node);
  }
  node->mirror.store(mirror, std::memory_order_release);
  return former;
}

void let_go(Node* mirror) noexcept {
  if (mirror != nullptr) unhold(mirror);
}

}  // namespace

Held known_mirror(const Node* node, const DeviceEntry& entry) {
  if (node->mirror.load(std::memory_order_acquire) == nullptr) return {};
  const std::lock_guard guard(mirrored().lock);
  Node* const mirror = node->mirror.load(std::memory_order_relaxed);
  return mirror != nullptr && mirror->entry == &entry ? Held(mirror) : Held();
}

void keep_mirror(Node* node, Held copy) {
  Node* former = nullptr;
  {
    const std::lock_guard guard(mirrored().lock);
    former = exchanged(mirrored(), node, copy.get());
    copy.leave();
  }
  let_go(former);
}

void swap_with_mirror(Node* node, Node* mirror) {
  Node* dropped = nullptr;
  {
    const std::lock_guard guard(mirrored().lock);
    if (node->mirror.load(std::memory_order_relaxed) == mirror)
      dropped = exchanged(mirrored(), node, nullptr);
    if (mirror->mirror.load(std::memory_order_relaxed) == nullptr) {
      Held former(node);
      exchanged(mirrored(), mirror, node);
      former.leave();
    }
  }
  let_go(dropped);
}

void drop_mirror(Node* node) noexcept {
  Node* mirror = nullptr;
  {
    const std::lock_guard guard(mirrored().lock);
    mirror = exchanged(mirrored(), node, nullptr);
  }
  let_go(mirror);
}

void give_up_mirrors(const DeviceEntry& entry) {
  std::vector<Node*> dropped;
  {
    Mirrored& table = mirrored();
    const std::lock_guard guard(table.lock);
    std::vector<Node*> nodes;
    for (Node* node : table.nodes) {
      if (node->mirror.load(std::memory_order_relaxed)->entry == &entry) nodes.push_back(node);
    }
    dropped.reserve(nodes.size());
    for (Node* node : nodes) dropped.push_back(exchanged(table, node, nullptr));
  }
  for (Node* mirror : dropped) let_go(mirror);
}

}  // namespace volta::graph
