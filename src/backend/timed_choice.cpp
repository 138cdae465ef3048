// Timing candidates and remembering the fastest, in the folder of compiled kernels.
#include "backend/timed_choice.h"

#include <algorithm>
#include <chrono>

#include "core/counting.h"
#include "kernel/emit.h"

namespace volta {
namespace {

std::string key_of(const TimedThing& thing) {
  return kernel::KernelCache::key(thing.what, "fastest way", thing.machine, "1");
}

}  // namespace

std::optional<std::size_t> remembered_way(const TimedThing& thing,
                                          std::span<const std::string> names) {
  std::string name;
  if (!kernel::KernelCache::instance().load(key_of(thing), name)) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

std::optional<std::size_t> fastest_way(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    double budget) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::optional<std::size_t> best;
  double least = 0;
  int tried = 0;
  for (std::size_t way = 0; way < count; ++way) {
    if (tried >= 2 && std::chrono::duration<double>(Clock::now() - start).count() > budget) break;
    const std::optional<double> took = seconds(way);
    if (!took) continue;
    ++tried;
    volta::count(live_counters().timings);
    if (best && *took >= least) continue;
    best = way;
    least = *took;
  }
  return best;
}

void remember_way(const TimedThing& thing, const std::string& name) {
  kernel::KernelCache::instance().store(key_of(thing), name);
}

}  // namespace volta
