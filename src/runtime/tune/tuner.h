// Chooses schedules for the large kernels of a plan, by timings on this machine from this or an
// earlier process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/steps.h"

namespace volta::plan {

// What becomes of a step without a known timing: it is timed, as far as VOLTA_TUNE allows; it keeps
// the default for the rest of the process, because a plan for one of many sizes must not wait; or
// it is left alone. A process never changes its choice for a step.
enum class Unknown : std::uint8_t { Time, KeepDefault, Leave };

// Gives the large steps of a plan the fastest schedules known. The caller holds the device's lock.
VOLTA_BACKEND_API void tune(Backend& backend, int device, PlanSteps& steps, Unknown unknown);

// A step in one of its forms, and the name of that form.
struct Candidate {
  Step step;
  std::string name;
};

// The result of timing candidates, of which number 0 is the default.
struct Decision {
  std::size_t chosen = 0;
  double usual_seconds = 0, chosen_seconds = 0;
};
// Chooses the fastest of `count` candidates by the least of several times, taken in turns. A
// candidate replaces the default only if it is faster by more than the noise. `seconds` returns
// nothing for a candidate that does not run; `is_late` ends the timing once two were timed. Returns
// nothing if fewer than two candidates could be timed.
VOLTA_BACKEND_API std::optional<Decision> decide(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    const std::function<bool()>& is_late);

// Replacements for parts of the tuner, for tests; an empty function replaces nothing.
struct TunerHooks {
  // The seconds of one run of a candidate; nothing is compiled or run if this is set.
  std::function<std::optional<double>(const Candidate&)> seconds;
  // Adds candidates to those found.
  std::function<void(std::vector<Candidate>&)> plant;
  std::function<double()> clock;  // the current time in seconds
  std::optional<std::uint64_t> least_bytes;
};
VOLTA_BACKEND_API void set_tuner_hooks(TunerHooks hooks);

}  // namespace volta::plan
