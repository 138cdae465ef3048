// Finds the large kernels of a plan, looks up their schedules and times those not timed before.
#include "runtime/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "backend/timed_choice.h"
#include "backend/tuning.h"
#include "core/counting.h"
#include "core/profiling.h"
#include "kernel/observer.h"
#include "plan/calls/call.h"
#include "platform/fork.h"
#include "runtime/tune/alternatives.h"
#include "runtime/tune/trial.h"
#include "volta/error.h"
#include "volta/log.h"
#include "volta/tuning.h"

namespace volta::plan {
namespace {

// Kernels with a shorter expected time are not tuned; if the device's figures are unknown, kernels
// that move fewer bytes are not.
constexpr double kLeastSeconds = 8e-6;
constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 20;
constexpr double kLeastProduct = 1e8;  // multiplications of a call that is worth tuning
// The fraction of time by which a schedule must be faster than the default, with enough rounds of
// timing and with fewer.
constexpr double kNoise = 0.03, kHastyNoise = 0.1;
constexpr int kRounds = 5, kEnoughRounds = 3;
// Candidates slower than the best by this factor are not timed again.
constexpr double kSlow = 1.25;
// Candidates slower than the default by this factor get a single run.
constexpr double kHopeless = 4;
constexpr double kSampleSeconds = 5e-4;
constexpr int kMostRuns = 50;

TunerHooks& hooks() {
  static TunerHooks hooks;
  return hooks;
}

double now() {
  if (hooks().clock) return hooks().clock();
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sizes are grouped into two classes per power of two.
int size_class(std::int64_t extent) {
  if (extent <= 1) return static_cast<int>(extent);
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(extent)));
  return 2 * bits + static_cast<int>(extent >> (bits - 2) & 1);
}

// ---- The choices made by this process, for tuned_choices().

struct MadeChoices {
  platform::ForkMutex mutex;
  std::vector<TunedChoice> choices;
  std::set<std::string> keys;
};
MadeChoices& made_choices() {
  static MadeChoices all;
  return all;
}

void record_choice(const ChoiceKey& choice_key, TunedChoice choice) {
  const std::lock_guard lock(made_choices().mutex);
  if (!made_choices().keys.insert(choice_key.machine + "\n" + choice_key.what).second) return;
  choice.device = choice_key.device;
  choice.what = choice_key.label;
  made_choices().choices.push_back(std::move(choice));
}

// ---- Candidates.

// Trial memory holds random numbers, which cannot stand in for row lengths or for sorted values.
bool can_try(const kernel::Program& program) {
  return std::ranges::none_of(program.axes, [](const auto& axis) { return axis.bound >= 0; }) &&
         std::ranges::none_of(program.instrs, [](const kernel::Instr& instr) {
           return instr.kind == kernel::InstrKind::Search;
         });
}

// Schedules with vectors need buffers that begin where whole buffers do. Iterations of a loop may
// begin elsewhere.
bool is_aligned(const KernelStep& step) {
  constexpr std::uint64_t kAlignment = 16;
  return std::ranges::all_of(step.segments, [&](const Binding& segment) {
    return std::ranges::all_of(segment.buffers, [&](const BufferRef& buffer) {
      return (buffer.offset | static_cast<std::uint64_t>(buffer.stride)) % kAlignment == 0;
    });
  });
}

std::vector<Candidate> candidates_of(Backend& backend, int device, const Step& step) {
  std::vector<Candidate> candidates;
  if (const auto* kernel = std::get_if<KernelStep>(&step)) {
    const kernel::Program& program = *kernel->program;
    if (!can_try(program) || !is_aligned(*kernel)) return {};
    candidates.push_back({step, kernel::to_text(program.schedule)});
    for (const kernel::Schedule& schedule : alternatives(program, kernel->segments)) {
      KernelStep other = *kernel;
      kernel::Program changed = program;
      changed.schedule = schedule;
      other.program = std::make_shared<const kernel::Program>(std::move(changed));
      other.tuned = true;
      candidates.push_back({std::move(other), kernel::to_text(schedule)});
    }
  } else {
    const Call& call = *call_of(step);
    for (const std::string& name : call.forms(backend, device, step)) {
      Step other = step;
      if (!candidates.empty()) call.set_form(other, name);
      candidates.push_back({std::move(other), name});
    }
  }
  if (hooks().plant && !candidates.empty()) hooks().plant(candidates);
  return candidates;
}

// The size classes of a kernel's axes; with several segments, the largest of each axis.
std::string sizes_of(const KernelStep& step) {
  std::string text;
  for (const kernel::Axis& axis : step.program->axes) {
    int largest = 0;
    for (const Binding& segment : step.segments)
      largest = std::max(largest, size_class(axis.extent.in(segment.ints)));
    text += fmt::format(" {}", largest);
  }
  return text + fmt::format(" x {}", size_class(static_cast<std::int64_t>(step.segments.size())));
}

std::string what_of(const Step& step, const std::string& usual) {
  if (const auto* kernel = std::get_if<KernelStep>(&step)) {
    kernel::Program bare = *kernel->program;
    bare.schedule = {.kind = bare.schedule.kind,
                     .index64 = bare.schedule.index64,
                     .horizontal = bare.schedule.horizontal};
    return fmt::format("schedule\n{}{}\nsizes{}", kernel::to_text(bare), usual, sizes_of(*kernel));
  }
  const TuningKey key = call_of(step)->tuning_key(step);
  std::string text = fmt::format("{} {} sizes", key.text, usual);
  for (const std::int64_t size : key.sizes) text += fmt::format(" {}", size_class(size));
  return text;
}

std::string label_of(const Step& step) {
  return std::visit([](const auto& one) { return one.label; }, step);
}

// ---- Steps of a plan that share one tuning decision.

struct Group {
  std::vector<Candidate> candidates = {};
  ChoiceKey choice_key = {};
  std::vector<Step*> steps = {};
  double weight = 0;
};

// A step of a plan, or of the iterations of a loop in it.
struct TunedStep {
  Step* step;
  const StepCost* cost;
  double times;
};

void add_steps(std::vector<Step>& steps, const std::vector<StepCost>& costs, double times,
               std::vector<TunedStep>& all) {
  for (std::size_t n = 0; n < steps.size(); ++n) {
    if (auto* loop = std::get_if<LoopStep>(&steps[n])) {
      for (LoopPart& part : loop->parts)
        add_steps(part.steps, part.costs, static_cast<double>(part.count), all);
    } else {
      all.push_back({&steps[n], &costs[n], times});
    }
  }
}

// The expected time of a step, by the device's figures or else by its bytes; 0 if it is not worth
// tuning.
double weight_of(const Step& step, const StepCost& cost, const DeviceFigures& figures) {
  const std::uint64_t bytes = cost.bytes_read + cost.bytes_written;
  if (call_of(step) != nullptr) {
    const double multiplications = static_cast<double>(cost.operations) / 2;
    return multiplications >= kLeastProduct ? multiplications * 1e-12 : 0;
  }
  if (hooks().least_bytes)
    return bytes >= *hooks().least_bytes ? static_cast<double>(bytes) * 1e-12 : 0;
  if (figures.bytes_per_second <= 0)
    return bytes >= kLeastBytes ? static_cast<double>(bytes) * 1e-12 : 0;
  double seconds = static_cast<double>(bytes) / figures.bytes_per_second;
  if (figures.operations_per_second > 0)
    seconds =
        std::max(seconds, static_cast<double>(cost.operations) / figures.operations_per_second);
  return seconds >= kLeastSeconds ? seconds : 0;
}

// Groups with the greatest weight come first.
std::vector<Group> groups_of(Backend& backend, int device, PlanSteps& plan) {
  const DeviceFigures figures = backend.figures(device);
  std::vector<Group> groups;
  std::map<std::string, std::size_t> numbers;
  std::string machine, name;
  std::vector<TunedStep> steps;
  add_steps(plan.steps, plan.costs, 1, steps);
  for (const auto& [step, cost, times] : steps) {
    const double weight = times * weight_of(*step, *cost, figures);
    if (weight <= 0) continue;
    std::vector<Candidate> candidates = candidates_of(backend, device, *step);
    if (candidates.size() < 2) continue;
    if (machine.empty()) machine = backend.fingerprint(device), name = backend.device_name(device);
    const std::string what = what_of(*step, candidates.front().name);
    const auto [place, fresh] = numbers.try_emplace(what, groups.size());
    if (fresh) {
      groups.push_back(
          {.candidates = std::move(candidates),
           .choice_key = {
               .machine = machine, .what = what, .device = name, .label = label_of(*step)}});
    }
    groups[place->second].steps.push_back(step);
    groups[place->second].weight += weight;
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, &Group::weight);
  return groups;
}

// Steps of one size class may allow different schedules, so each looks up the chosen one by name.
void apply(Backend& backend, int device, const Group& group, const std::string& name) {
  if (name == group.candidates.front().name) return;
  for (Step* step : group.steps) {
    for (Candidate& candidate : candidates_of(backend, device, *step)) {
      if (candidate.name != name) continue;
      *step = std::move(candidate.step);
      if (const auto* kernel = std::get_if<KernelStep>(step))
        kernel::report_program(*kernel->program);
      break;
    }
  }
}

// ---- Timing.

std::optional<Decision> time_group(Backend& backend, int device, const PlanSteps& plan,
                                   const Group& group, double deadline) {
  const std::vector<Candidate>& candidates = group.candidates;
  const auto is_late = [&] { return now() >= deadline; };
  const auto counted = [](std::optional<double> seconds) {
    if (seconds) count(live_counters().timings);
    return seconds;
  };
  if (hooks().seconds) {
    return decide(
        candidates.size(), [&](std::size_t n) { return counted(hooks().seconds(candidates[n])); },
        is_late);
  }
  Trial trial(backend, device, plan, *group.steps.front());
  if (!trial.has_memory()) return std::nullopt;
  const std::size_t together = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 16);
  std::size_t compiled = 0;
  while (compiled < candidates.size() && !is_late()) {
    std::vector<const Step*> some;
    for (; some.size() < together && compiled < candidates.size(); ++compiled)
      some.push_back(&candidates[compiled].step);
    try {
      trial.compile(some);
    } catch (const Error&) {  // prepare() below finds the one that fails
    }
  }
  std::vector<std::unique_ptr<Executable>> ready(compiled);
  std::vector<bool> failed(compiled);
  std::optional<double> usual;
  return decide(
      compiled,
      [&](std::size_t n) -> std::optional<double> {
        if (failed[n]) return std::nullopt;
        try {
          const bool first = !ready[n];
          if (first) ready[n] = trial.prepare(candidates[n].step);
          if (first && n > 0) {
            const double once = trial.seconds(*ready[n], 1);
            if (once > kHopeless * *usual) return counted(once);
          }
          if (!usual) usual = trial.seconds(*ready[0], 1);
          const int runs =
              std::clamp(static_cast<int>(kSampleSeconds / std::max(*usual, 1e-9)), 1, kMostRuns);
          return counted(trial.seconds(*ready[n], runs));
        } catch (const Error& error) {
          log(LogLevel::debug,
              fmt::format("tuning: \"{}\" is passed over: {}", candidates[n].name, error.what()));
          failed[n] = true;
          return std::nullopt;
        }
      },
      is_late);
}

TuningSource source_of(CandidateSource source) {
  switch (source) {
    case CandidateSource::Adopted:
      return TuningSource::Adopted;
    case CandidateSource::Shipped:
      return TuningSource::Shipped;
    default:
      return TuningSource::Remembered;
  }
}

void tune_group(Backend& backend, int device, const PlanSteps& plan, const Group& group,
                Unknown unknown) {
  std::vector<std::string> names;
  for (const Candidate& candidate : group.candidates) names.push_back(candidate.name);
  TunedChoice choice;
  choice.usual = choice.chosen = names.front();
  CandidateSource source = CandidateSource::Process;
  if (const auto known = remembered_candidate(group.choice_key, names, &source)) {
    choice.chosen = names[*known];
    choice.source = source_of(source);
    apply(backend, device, group, choice.chosen);
    return record_choice(group.choice_key, std::move(choice));
  }
  if (unknown == Unknown::Leave) return;
  const double left = tuning_seconds_left();
  // Timing runs would appear in a profile.
  const bool may_time = unknown == Unknown::Time && profiling::session() == 0 &&
                        schedule_tuning(backend.device_is_gpu(device)) == Tuning::Time;
  if (!may_time || left <= 0) {
    // This process keeps the default, even if later plans have time for tuning.
    use_candidate(group.choice_key, names.front());
    return record_choice(group.choice_key, std::move(choice));
  }
  const double start = now();
  std::optional<Decision> decision;
  try {
    decision = time_group(backend, device, plan, group, start + left);
  } catch (const Error& error) {
    log(LogLevel::info,
        fmt::format("tuning: {} is not timed: {}", group.choice_key.label, error.what()));
  }
  spend_tuning_seconds(now() - start);
  if (!decision) {
    use_candidate(group.choice_key, names.front());
    return record_choice(group.choice_key, std::move(choice));
  }
  choice.chosen = names[decision->chosen];
  choice.source = TuningSource::Timed;
  choice.usual_seconds = decision->usual_seconds;
  choice.chosen_seconds = decision->chosen_seconds;
  remember_candidate(group.choice_key, choice.chosen);  // before the first use of the choice
  apply(backend, device, group, choice.chosen);
  record_choice(group.choice_key, std::move(choice));
}

}  // namespace

void set_tuner_hooks(TunerHooks replacement) { hooks() = std::move(replacement); }

std::optional<Decision> decide(std::size_t count,
                               const std::function<std::optional<double>(std::size_t)>& seconds,
                               const std::function<bool()>& is_late) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> least(count, kNever);
  std::vector<std::size_t> left;
  const auto time = [&](std::size_t n) {
    const std::optional<double> took = seconds(n);
    if (took) least[n] = std::min(least[n], *took);
    return took.has_value();
  };
  for (std::size_t n = 0; n < count && (n < 2 || !is_late()); ++n) {
    if (time(n)) left.push_back(n);
    if (n == 0 && left.empty()) return std::nullopt;
  }
  if (left.size() < 2) return std::nullopt;
  int rounds = 1;
  for (; rounds < kRounds && !is_late(); ++rounds) {
    const double best = *std::ranges::min_element(least);
    std::erase_if(left, [&](std::size_t n) { return n != 0 && least[n] > kSlow * best; });
    if (left.size() == 1) break;
    std::ranges::reverse(left);  // alternating order: a device slows down as it warms up
    for (const std::size_t n : left) {
      if (is_late()) break;
      time(n);
    }
  }
  const auto chosen = static_cast<std::size_t>(std::ranges::min_element(least) - least.begin());
  const double noise = rounds >= kEnoughRounds ? kNoise : kHastyNoise;
  Decision decision{.chosen = chosen, .usual_seconds = least[0], .chosen_seconds = least[chosen]};
  if (least[chosen] > (1 - noise) * least[0])
    decision = {.chosen = 0, .usual_seconds = least[0], .chosen_seconds = least[0]};
  return decision;
}

void tune(Backend& backend, int device, PlanSteps& plan, Unknown unknown) {
  if (schedule_tuning(backend.device_is_gpu(device)) == Tuning::Off) return;
  for (const Group& group : groups_of(backend, device, plan))
    tune_group(backend, device, plan, group, unknown);
}

}  // namespace volta::plan

namespace volta {

std::vector<TunedChoice> tuned_choices() {
  const std::lock_guard lock(plan::made_choices().mutex);
  return plan::made_choices().choices;
}

}  // namespace volta
