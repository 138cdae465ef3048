// The table of nodes that have replicas.
#include "graph/record/replicas.h"

#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "platform/fork.h"

namespace volta::graph {
namespace {

// Never destroyed, since tensors in static objects may still use it at process exit.
struct ReplicaTable {
  platform::ForkMutex lock;
  std::unordered_set<Node*> nodes;  // nodes whose replica is not on the CPU
};
ReplicaTable& replica_table() {
  static auto* table = new ReplicaTable;
  return *table;
}

bool is_listed(const Node* replica) {
  return replica != nullptr && !replica->entry->device.is_cpu();
}

// Replaces the node's replica and returns the former one, which the caller drops after unlocking.
// The pointer is stored last, so that a node without a replica can be destroyed without the lock.
Node* exchanged(ReplicaTable& table, Node* node, Node* replica) {
  Node* const former = node->replica.load(std::memory_order_relaxed);
  if (is_listed(replica)) {
    table.nodes.insert(node);
  } else if (is_listed(former)) {
    table.nodes.erase(node);
  }
  node->replica.store(replica, std::memory_order_release);
  return former;
}

void let_go(Node* replica) noexcept {
  if (replica != nullptr) unhold(replica);
}

}  // namespace

Held known_replica(const Node* node, const DeviceEntry& entry) {
  if (node->replica.load(std::memory_order_acquire) == nullptr) return {};
  const std::lock_guard guard(replica_table().lock);
  Node* const replica = node->replica.load(std::memory_order_relaxed);
  return replica != nullptr && replica->entry == &entry ? Held(replica) : Held();
}

void keep_replica(Node* node, Held copy) {
  Node* former = nullptr;
  {
    const std::lock_guard guard(replica_table().lock);
    former = exchanged(replica_table(), node, copy.get());
    copy.leave();
  }
  let_go(former);
}

void swap_with_replica(Node* node, Node* replica) {
  Node* dropped = nullptr;
  {
    const std::lock_guard guard(replica_table().lock);
    if (node->replica.load(std::memory_order_relaxed) == replica)
      dropped = exchanged(replica_table(), node, nullptr);
    if (replica->replica.load(std::memory_order_relaxed) == nullptr) {
      Held former(node);
      exchanged(replica_table(), replica, node);
      former.leave();
    }
  }
  let_go(dropped);
}

void drop_replica(Node* node) noexcept {
  Node* replica = nullptr;
  {
    const std::lock_guard guard(replica_table().lock);
    replica = exchanged(replica_table(), node, nullptr);
  }
  let_go(replica);
}

void give_up_replicas(const DeviceEntry& entry) {
  std::vector<Node*> dropped;
  {
    ReplicaTable& table = replica_table();
    const std::lock_guard guard(table.lock);
    std::vector<Node*> nodes;
    for (Node* node : table.nodes) {
      if (node->replica.load(std::memory_order_relaxed)->entry == &entry) nodes.push_back(node);
    }
    dropped.reserve(nodes.size());
    for (Node* node : nodes) dropped.push_back(exchanged(table, node, nullptr));
  }
  for (Node* replica : dropped) let_go(replica);
}

}  // namespace volta::graph
