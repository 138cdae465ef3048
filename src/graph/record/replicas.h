// Copies of values that placement keeps on another device (Node::mirror), so that using a value
// there again moves nothing. They go with the value, when another copy takes their place, and when
// the device runs short of memory.
#pragma once

#include "core/registry.h"
#include "graph/node.h"
#include "volta/export.h"

namespace volta::graph {

// The node's copy there; empty where there is none.
Held known_mirror(const Node* node, const DeviceEntry& entry);
// From now on that is the node's copy.
void keep_mirror(Node* node, Held copy);
// The copy takes the node's place: the node becomes the copy's mirror, unless that has one.
void swap_with_mirror(Node* node, Node* mirror);
// A node that dies lets go of its copy.
void drop_mirror(Node* node) noexcept;
// Lets go of all copies on a device that is not the CPU: what is still used stays, the others'
// memory comes free. Those on the CPU stay, since spans may look into them.
VOLTA_BACKEND_API void give_up_mirrors(const DeviceEntry& entry);

}  // namespace volta::graph
