// Moves values that only the host has to their device.
#pragma once

namespace volta::graph {

struct Node;

// Allocates device memory for a value that so far exists only on the host, because the CPU computed
// it (runtime/rescue.h), and uploads it. The caller holds the device's lock.
void make_resident(Node& node);

}  // namespace volta::graph
