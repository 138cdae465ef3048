// Timing candidates and remembering the fastest, in the folder of compiled kernels.
#include "backend/timed_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/shipped_choices.h"
#include "backend/tuning.h"
#include "core/counting.h"
#include "kernel/emit.h"
#include "platform/fork.h"
#include "volta/tuning.h"

namespace volta {
namespace {

std::string key_on(const std::string& machine, const TimedThing& thing) {
  return kernel::KernelCache::key(thing.what, "fastest way", machine, "1");
}
std::string key_of(const TimedThing& thing) { return key_on(thing.machine, thing); }

// The ways this process goes by.
struct Way {
  std::string name;
  WaySource source = WaySource::Process;
  std::string shipped;  // a line of shipped_choices.def, if it was timed on this machine
};
struct Chosen {
  platform::ForkMutex mutex;
  std::map<std::string, Way> ways;
};
Chosen& chosen() {
  static Chosen table;
  return table;
}

void note(const std::string& key, Way way) {
  const std::lock_guard guard(chosen().mutex);
  chosen().ways.insert_or_assign(key, std::move(way));
}

std::string line_to_ship(const TimedThing& thing, const std::string& name) {
  if (thing.device.empty()) return {};
  std::string label = thing.label.substr(0, thing.label.find('\n'));
  // A backslash at its end would swallow the next line.
  std::ranges::replace(label, '\\', '/');
  return fmt::format("VOLTA_SHIPPED_CHOICE(\"{}\", \"{}\", \"{}\"){}{}\n", thing.device,
                     key_on(thing.device, thing), name, label.empty() ? "" : "  // ", label);
}

std::optional<Way> known_way(const TimedThing& thing, const std::string& key) {
  {
    const std::lock_guard guard(chosen().mutex);
    const auto found = chosen().ways.find(key);
    if (found != chosen().ways.end()) return found->second;
  }
  std::string name;
  if (kernel::KernelCache::instance().load(key, name))
    return Way{name, WaySource::Disk, line_to_ship(thing, name)};
  if (thing.device.empty()) return std::nullopt;
  std::optional<std::string> shipped = shipped_choice(thing.device, key_on(thing.device, thing));
  if (!shipped) return std::nullopt;
  std::string line = line_to_ship(thing, *shipped);
  return Way{*std::move(shipped), WaySource::Shipped, std::move(line)};
}

}  // namespace

std::optional<std::size_t> remembered_way(const TimedThing& thing,
                                          std::span<const std::string> names, WaySource* source) {
  if (library_tuning() == Tuning::Off) return std::nullopt;
  const std::string key = key_of(thing);
  std::optional<Way> way = known_way(thing, key);
  if (!way) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), way->name);
  if (found == names.end()) return std::nullopt;
  if (source != nullptr) *source = way->source;
  note(key, *std::move(way));
  return static_cast<std::size_t>(found - names.begin());
}

namespace {
constexpr int kRounds = 5;
}

std::optional<std::size_t> fastest_way(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    double budget) {
  if (library_tuning() != Tuning::Time) {
    for (std::size_t way = 0; way < count; ++way) {
      if (seconds(way)) return way;
    }
    return std::nullopt;
  }
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
  if (library_tuning() != Tuning::Time) return use_way(thing, name);
  const std::string key = key_of(thing);
  note(key, {name, WaySource::Process, line_to_ship(thing, name)});
  kernel::KernelCache::instance().store(key, name);
}

void use_way(const TimedThing& thing, const std::string& name) {
  note(key_of(thing), {name, WaySource::Process, {}});
}

std::map<std::string, std::string> chosen_ways() {
  const std::lock_guard guard(chosen().mutex);
  std::map<std::string, std::string> names;
  for (const auto& [key, way] : chosen().ways) names.emplace(key, way.name);
  return names;
}

void adopt_ways(const std::map<std::string, std::string>& ways) {
  for (const auto& [key, name] : ways) note(key, {name, WaySource::Adopted, {}});
}

std::string export_tuning() {
  const std::lock_guard guard(chosen().mutex);
  std::string lines;
  for (const auto& [key, way] : chosen().ways) lines += way.shipped;
  return lines;
}

}  // namespace volta
