// The state of each device, and the keys of its plans.
#include "runtime/device_runtime.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/cache_bounds.h"
#include "runtime/check/check.h"
#include "runtime/runner.h"

namespace volta::plan {

using graph::Batch;
using graph::Buffer;
using graph::kHolder;
using graph::kReference;
using graph::Node;
using graph::Recorder;

void drop_arena(DeviceRuntime& runtime, std::size_t stream) {
  if (Buffer* arena = std::exchange(runtime.arenas[stream], nullptr)) graph::release(arena);
}

void trim(DeviceEntry& entry) {
  const std::lock_guard guard(entry.lock);
  auto& runtime = *entry.runtime;
  for (std::size_t stream = 0; stream < kComputeStreams; ++stream) {
    if (runtime.running != stream) drop_arena(runtime, stream);
  }
}

DeviceRuntime& runtime_of(DeviceEntry& entry) {
  if (entry.runtime == nullptr) {
    entry.runtime = new DeviceRuntime(entry);
    entry.trim = &trim;
    entry.evict = &evict;
  }
  return *entry.runtime;
}

namespace {

// A leaf may be overwritten if only the batch (and its journal) refers to its value. Scalars are
// excluded: their memory is not worth reusing, and equal scalars share a buffer at first.
bool is_donatable(const graph::Leaf& leaf) {
  const Node& node = *leaf.node;
  return node.shape.rank() > 0 && node.buffer != nullptr && node.buffer->pool_owned &&
         node.buffer->refs.load(std::memory_order_acquire) == 1u + (node.buffer->kept ? 1u : 0u) &&
         node.counts.load(std::memory_order_acquire) == kReference + kHolder * leaf.journaled;
}

}  // namespace

std::size_t compute_stream_of(const DeviceEntry& entry, const Recorder& recorder) {
  return checks_steps()
             ? 0
             : entry.streams.compute_stream_of(recorder.stream.load(std::memory_order_relaxed));
}

Key key_of(const Batch& batch, std::size_t stream, std::vector<bool>& donatable) {
  Key key{batch.hash, batch.live};
  if (stream != 0) key.hash.mix(stream);
  donatable.assign(batch.leaves.size(), false);
  std::uint64_t bits = 1;
  for (std::size_t i = 0; i < batch.leaves.size(); ++i) {
    donatable[i] = is_donatable(batch.leaves[i]);
    bits = bits << 1 | (donatable[i] ? 1 : 0);
    if (i % 62 == 61) {
      key.hash.mix(bits);
      bits = 1;
    }
  }
  key.hash.mix(bits);
  return key;
}

CacheStats cache_stats(Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard guard(entry.lock);
  const DeviceRuntime& runtime = runtime_of(entry);
  CacheStats stats;
  stats.runs = runtime.runs;
  stats.plans = runtime.plans.size();
  stats.groupings = runtime.groupings.size();
  stats.programs = entry.backend.program_count(entry.index);
  stats.sites = static_cast<std::size_t>(
      std::count_if(runtime.plans.begin(), runtime.plans.end(),
                    [](const DeviceRuntime::Entry& e) { return e.plan->checks != nullptr; }));
  for (const Buffer* arena : runtime.arenas)
    stats.arena_bytes += arena != nullptr ? arena->bytes : 0;
  if (!runtime.plans.empty()) stats.latest_arena = runtime.plans.front().plan->steps.arena_bytes;
  return stats;
}

}  // namespace volta::plan
