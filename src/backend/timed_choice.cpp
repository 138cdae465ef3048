// Timing candidates and remembering the fastest, in the folder of compiled kernels.
#include "backend/timed_choice.h"

#include <algorithm>

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
    const TimedThing& thing, std::span<const std::string> names,
    const std::function<std::optional<double>(std::size_t)>& seconds, double budget) {
  std::optional<std::size_t> best;
  double least = 0, spent = 0;
  int tried = 0;
  for (std::size_t way = 0; way < names.size(); ++way) {
    if (tried >= 2 && spent > budget) break;
    const std::optional<double> took = seconds(way);
    if (!took) continue;
    ++tried;
    spent += *took;
    count(live_counters().timings);
    if (best && *took >= least) continue;
    best = way;
    least = *took;
  }
  if (best) kernel::KernelCache::instance().store(key_of(thing), names[*best]);
  return best;
}

}  // namespace volta
