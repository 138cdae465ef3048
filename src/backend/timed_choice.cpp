// Timing candidates and remembering the fastest in the kernel cache's folder.
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
#include "kernel/cache.h"
#include "platform/fork.h"
#include "volta/tuning.h"

namespace volta {
namespace {

std::string key_on(const std::string& machine, const ChoiceKey& choice) {
  return kernel::KernelCache::key(choice.what, "fastest way", machine, "1");
}
std::string key_of(const ChoiceKey& choice) { return key_on(choice.machine, choice); }

// A choice that this process uses.
struct Candidate {
  std::string name;
  CandidateSource source = CandidateSource::Process;
  std::string shipped;  // the line for shipped_choices.def, if the choice was timed here
};
struct Chosen {
  platform::ForkMutex mutex;
  std::map<std::string, Candidate> candidates;
};
Chosen& chosen() {
  static Chosen table;
  return table;
}

void note(const std::string& key, Candidate candidate) {
  const std::lock_guard guard(chosen().mutex);
  chosen().candidates.insert_or_assign(key, std::move(candidate));
}

std::string line_to_ship(const ChoiceKey& choice, const std::string& name) {
  if (choice.device.empty()) return {};
  std::string label = choice.label.substr(0, choice.label.find('\n'));
  // A backslash at the end of a label would continue the comment on the next line.
  std::ranges::replace(label, '\\', '/');
  return fmt::format("VOLTA_SHIPPED_CHOICE(\"{}\", \"{}\", \"{}\"){}{}\n", choice.device,
                     key_on(choice.device, choice), name, label.empty() ? "" : "  // ", label);
}

std::optional<Candidate> known_candidate(const ChoiceKey& choice, const std::string& key) {
  {
    const std::lock_guard guard(chosen().mutex);
    const auto found = chosen().candidates.find(key);
    if (found != chosen().candidates.end()) return found->second;
  }
  std::string name;
  if (kernel::KernelCache::instance().load(key, name))
    return Candidate{name, CandidateSource::Disk, line_to_ship(choice, name)};
  if (choice.device.empty()) return std::nullopt;
  std::optional<std::string> shipped = shipped_choice(choice.device, key_on(choice.device, choice));
  if (!shipped) return std::nullopt;
  std::string line = line_to_ship(choice, *shipped);
  return Candidate{*std::move(shipped), CandidateSource::Shipped, std::move(line)};
}

}  // namespace

std::optional<std::size_t> remembered_candidate(const ChoiceKey& choice,
                                                std::span<const std::string> names,
                                                CandidateSource* source) {
  if (library_tuning() == Tuning::Off) return std::nullopt;
  const std::string key = key_of(choice);
  std::optional<Candidate> candidate = known_candidate(choice, key);
  if (!candidate) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), candidate->name);
  if (found == names.end()) return std::nullopt;
  if (source != nullptr) *source = candidate->source;
  note(key, *std::move(candidate));
  return static_cast<std::size_t>(found - names.begin());
}

bool is_chosen(const ChoiceKey& choice) {
  const std::string key = key_of(choice);
  const std::lock_guard guard(chosen().mutex);
  return chosen().candidates.contains(key);
}

namespace {
constexpr int kRounds = 5;
}

std::optional<std::size_t> fastest_candidate(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    double budget) {
  if (library_tuning() != Tuning::Time) {
    for (std::size_t candidate = 0; candidate < count; ++candidate) {
      if (seconds(candidate)) return candidate;
    }
    return std::nullopt;
  }
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > budget;
  };
  struct Try {
    std::size_t candidate;
    double seconds;
  };
  std::vector<Try> tries;
  const auto time = [&](std::size_t candidate) {
    const std::optional<double> took = seconds(candidate);
    if (took) volta::count(live_counters().timings);
    return took;
  };
  for (std::size_t candidate = 0; candidate < count && (tries.size() < 2 || !is_late());
       ++candidate) {
    if (const std::optional<double> took = time(candidate)) tries.push_back({candidate, *took});
  }
  if (tries.empty()) return std::nullopt;
  // Candidates that differ by less than the noise are timed in several rounds, in alternating order
  // because a device slows down as it warms up; the median counts.
  const auto faster = [](const Try& a, const Try& b) { return a.seconds < b.seconds; };
  const double close = 1.05 * std::min_element(tries.begin(), tries.end(), faster)->seconds;
  std::vector<Try> last;
  std::copy_if(tries.begin(), tries.end(), std::back_inserter(last),
               [&](const Try& one) { return one.seconds <= close; });
  if (last.size() == 1) return last[0].candidate;
  std::vector<std::vector<double>> times(last.size());
  for (int round = 0; round < kRounds && !is_late(); ++round) {
    for (std::size_t i = 0; i < last.size() && !is_late(); ++i) {
      const std::size_t one = round % 2 == 0 ? last.size() - 1 - i : i;
      if (const std::optional<double> took = time(last[one].candidate)) times[one].push_back(*took);
    }
  }
  for (std::size_t i = 0; i < last.size(); ++i) {
    times[i].push_back(last[i].seconds);
    const auto middle = times[i].begin() + static_cast<std::ptrdiff_t>((times[i].size() - 1) / 2);
    std::nth_element(times[i].begin(), middle, times[i].end());
    last[i].seconds = *middle;
  }
  return std::min_element(last.begin(), last.end(), faster)->candidate;
}

void remember_candidate(const ChoiceKey& choice, const std::string& name) {
  if (library_tuning() != Tuning::Time) return use_candidate(choice, name);
  const std::string key = key_of(choice);
  note(key, {name, CandidateSource::Process, line_to_ship(choice, name)});
  kernel::KernelCache::instance().store(key, name);
}

void use_candidate(const ChoiceKey& choice, const std::string& name) {
  note(key_of(choice), {name, CandidateSource::Process, {}});
}

std::map<std::string, std::string> chosen_candidates() {
  const std::lock_guard guard(chosen().mutex);
  std::map<std::string, std::string> names;
  for (const auto& [key, candidate] : chosen().candidates) names.emplace(key, candidate.name);
  return names;
}

void adopt_candidates(const std::map<std::string, std::string>& candidates) {
  for (const auto& [key, name] : candidates) note(key, {name, CandidateSource::Adopted, {}});
}

std::string export_tuning() {
  const std::lock_guard guard(chosen().mutex);
  std::string lines;
  for (const auto& [key, candidate] : chosen().candidates) lines += candidate.shipped;
  return lines;
}

}  // namespace volta
