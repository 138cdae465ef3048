// Replicas: copies of values that placement keeps on another device (Node::replica), so that the
// next use there copies nothing. A replica is dropped with its value, when another replica takes
// its place, or when the device runs out of memory.
#pragma once

#include "backend/registry.h"
#include "graph/record/node.h"
#include "volta/export.h"

namespace volta::graph {

// The node's replica on the device; empty if there is none.
Held known_replica(const Node* node, const DeviceEntry& entry);
// Makes `copy` the node's replica.
void keep_replica(Node* node, Held copy);
// Called when the replica replaces the node: the node becomes the replica's own replica, unless it
// already has one.
void swap_with_replica(Node* node, Node* replica);
// Drops the replica of a node that is being destroyed.
void drop_replica(Node* node) noexcept;
// Drops all replicas on a device that is not the CPU, which frees those that nothing else uses.
// Replicas on the CPU stay, since spans may point into them.
VOLTA_BACKEND_API void give_up_replicas(const DeviceEntry& entry);

}  // namespace volta::graph
