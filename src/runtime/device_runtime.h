// The state that the runtime keeps for a device between submits: the cache of plans, one arena per
// stream that all its plans share, and empty batches for reuse.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "backend/registry.h"
#include "graph/record/recorder.h"
#include "plan/group/structure.h"
#include "plan/linker.h"
#include "plan/plan.h"
#include "runtime/linking.h"
#include "runtime/structures.h"

namespace volta::plan {

// The key of a plan: the hash of everything recorded, and the set of values that are still wanted.
struct Key {
  graph::Hash hash;
  std::uint64_t live = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    return key.hash.a ^ (key.live * 0x9E3779B97F4A7C15u);
  }
};

struct DeviceRuntime {
  explicit DeviceRuntime(DeviceEntry& e) : entry(e) {}
  struct Entry {
    Key key;
    std::unique_ptr<Plan> plan;
    // The memory that the plan and its executable held when last counted (cache_bounds.h).
    HeldBytes held = {}, executable = {};
    bool counted = false;
    std::optional<Linked> linked = std::nullopt;
  };
  DeviceEntry& entry;
  std::uint64_t runs = 0;
  std::list<Entry> plans;  // most recently used first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> by_key;
  HeldBytes held;  // total over all plans
  GroupingCache groupings;
  Structures structures;
  StretchCache stretches;
  LinkHistory links;
  std::array<graph::Buffer*, kComputeStreams> arenas{};
  std::optional<std::size_t> running;  // the stream whose plan is currently being given its memory
  std::vector<std::unique_ptr<graph::Batch>> spare;
  // Recorders that hold deferred batches, and empty ones for reuse.
  std::vector<graph::Recorder*> deferred, spare_deferred;
  // Scratch vectors, reused between runs so that a steady-state step allocates nothing.
  std::vector<Address> leaves, outputs;
  std::vector<std::uint64_t> args;
  std::vector<graph::Buffer*> buffers, shared;
  std::vector<bool> donatable;
};

// Returns the state of a device, created at the first call and never destroyed. The caller holds
// the entry's lock.
DeviceRuntime& runtime_of(DeviceEntry& entry);

void drop_arena(DeviceRuntime& runtime, std::size_t stream);
// Releases the arenas of all streams except one whose plan is being given its memory. An arena
// grows to the largest plan so far, so this can free memory that is needed more elsewhere.
void trim(DeviceEntry& entry);

// The compute stream that runs the recorder's batches. It is always the first one if steps are
// checked against the CPU.
std::size_t compute_stream_of(const DeviceEntry& entry, const graph::Recorder& recorder);

// Computes the key of a batch, and sets `donatable[i]` if leaf i may be overwritten.
Key key_of(const graph::Batch& batch, std::size_t stream, std::vector<bool>& donatable);

}  // namespace volta::plan
