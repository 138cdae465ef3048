// A device's memory for programs: statistics, limits, and freeing cached memory.
#include <cstdint>
#include <mutex>

#include "backend/registry.h"
#include "platform/memory.h"
#include "volta/counters.h"

namespace volta {

MemoryStats memory_stats(Device device) {
  const DeviceEntry& entry = device_entry(device);
  MemoryStats stats = entry.pool.stats();
  const CachedBytes& cached = entry.cached;
  const SharedBytes shared = entry.backend.shared_bytes(entry.index);
  stats.cached_plans = cached.plans.load(std::memory_order_relaxed);
  stats.plan_bytes = cached.plan_host.load(std::memory_order_relaxed);
  stats.plan_device_bytes = cached.plan_device.load(std::memory_order_relaxed);
  stats.grouping_bytes = cached.groupings.load(std::memory_order_relaxed);
  stats.kernel_bytes = shared.kernels;
  stats.library_bytes = shared.libraries;
  stats.cache_limit = cached.limit.load(std::memory_order_relaxed);
  return stats;
}

void reset_peak_memory(Device device) { device_entry(device).pool.reset_peak(); }

void set_memory_limit(Device device, std::uint64_t bytes) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard lock(entry.lock);
  // Arenas that plans keep between runs are freed first: others may need the memory more.
  if (bytes != 0 && entry.pool.stats().reserved > bytes && entry.trim != nullptr) entry.trim(entry);
  entry.pool.set_limit(bytes);
}

void set_cache_limit(Device device, std::uint64_t bytes) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard lock(entry.lock);
  entry.cached.limit.store(bytes, std::memory_order_relaxed);
  if (entry.evict != nullptr) entry.evict(entry, false);
}

void empty_cache(Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard lock(entry.lock);  // frees device memory, so not during a submission
  if (entry.trim != nullptr) entry.trim(entry);
  if (entry.evict != nullptr) entry.evict(entry, true);
  entry.backend.drop_unused(entry.index);
  entry.pool.empty_cache();
  platform::return_free_memory();
}

}  // namespace volta
