// Timing candidates and remembering the fastest, in the folder of compiled kernels.
#include "backend/timed_choice.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <vector>

#include "core/counting.h"
#include "kernel/emit.h"

namespace volta {
namespace {

std::string key_of(const TimedThing& thing) {
  return kernel::KernelCache::key(thing.what, "fastest way", thing.machine, "1");
}

// The ways this process goes by.
struct Chosen {
  std::mutex mutex;
  std::map<std::string, std::string> names;
};
Chosen& chosen() {
  static Chosen table;
  return table;
}

void note(const std::string& key, const std::string& name) {
  const std::lock_guard guard(chosen().mutex);
  chosen().names.insert_or_assign(key, name);
}

std::optional<std::string> known_way(const std::string& key) {
  {
    const std::lock_guard guard(chosen().mutex);
    const auto found = chosen().names.find(key);
    if (found != chosen().names.end()) return found->second;
  }
  std::string name;
  if (!kernel::KernelCache::instance().load(key, name)) return std::nullopt;
  return name;
}

}  // namespace

std::optional<std::size_t> remembered_way(const TimedThing& thing,
                                          std::span<const std::string> names) {
  const std::string key = key_of(thing);
  const std::optional<std::string> name = known_way(key);
  if (!name) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *name);
  if (found == names.end()) return std::nullopt;
  note(key, *name);
  return static_cast<std::size_t>(found - names.begin());
}

namespace {
constexpr int kRounds = 5;
}

std::optional<std::size_t> fastest_way(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    double budget) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > budget;
  };
  struct Try {
    std::size_t way;
    double seconds;
  };
  std::vector<Try> tries;
  const auto time = [&](std::size_t way) {
    const std::optional<double> took = seconds(way);
    if (took) volta::count(live_counters().timings);
    return took;
  };
  for (std::size_t way = 0; way < count && (tries.size() < 2 || !is_late()); ++way) {
    if (const std::optional<double> took = time(way)) tries.push_back({way, *took});
  }
  if (tries.empty()) return std::nullopt;
  // What differs by less than such times vary is timed in turns, forwards and backwards, since a
  // device slows down as it warms; the median of several times counts.
  const auto faster = [](const Try& a, const Try& b) { return a.seconds < b.seconds; };
  const double close = 1.05 * std::min_element(tries.begin(), tries.end(), faster)->seconds;
  std::vector<Try> last;
  std::copy_if(tries.begin(), tries.end(), std::back_inserter(last),
               [&](const Try& one) { return one.seconds <= close; });
  if (last.size() == 1) return last[0].way;
  std::vector<std::vector<double>> times(last.size());
  for (int round = 0; round < kRounds && !is_late(); ++round) {
    for (std::size_t i = 0; i < last.size() && !is_late(); ++i) {
      const std::size_t one = round % 2 == 0 ? last.size() - 1 - i : i;
      if (const std::optional<double> took = time(last[one].way)) times[one].push_back(*took);
    }
  }
  for (std::size_t i = 0; i < last.size(); ++i) {
    times[i].push_back(last[i].seconds);
    const auto middle = times[i].begin() + static_cast<std::ptrdiff_t>((times[i].size() - 1) / 2);
    std::nth_element(times[i].begin(), middle, times[i].end());
    last[i].seconds = *middle;
  }
  return std::min_element(last.begin(), last.end(), faster)->way;
}

void remember_way(const TimedThing& thing, const std::string& name) {
  const std::string key = key_of(thing);
  note(key, name);
  kernel::KernelCache::instance().store(key, name);
}

std::map<std::string, std::string> chosen_ways() {
  const std::lock_guard guard(chosen().mutex);
  return chosen().names;
}

void adopt_ways(const std::map<std::string, std::string>& ways) {
  for (const auto& [key, name] : ways) note(key, name);
}

}  // namespace volta
