// Which schedules the large kernels of a plan run with: what timing them on this machine showed, in
// this process or an earlier one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "plan/plan_steps.h"

namespace volta::plan {

// What becomes of a step of which nothing is known: it is timed, as far as VOLTA_TUNE allows, and
// this process goes by the result; or it is left alone.
enum class Unknown : std::uint8_t { Time, Leave };

// Gives the steps of a plan that are large enough to matter the schedules known to be the fastest.
// The device's lock is held.
VOLTA_BACKEND_API void tune(Backend& backend, int device, PlanSteps& steps, Unknown unknown);

// A step in another form, and the name of that form.
struct Candidate {
  Step step;
  std::string name;
};

// Candidate 0 is the usual one. Nothing where not even two of them could be timed.
struct Decision {
  std::size_t chosen = 0;
  double usual_seconds = 0, chosen_seconds = 0;
};
// The fastest of `count`: the least of several times each, taken in turns; another than the usual
// one only where it is faster by more than times vary. `seconds` gives nothing for one that does
// not run; `is_late` ends the timing, after two.
VOLTA_BACKEND_API std::optional<Decision> decide(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    const std::function<bool()>& is_late);

// For tests: what stands in for the tuner's own. Empty functions: nothing does.
struct TunerHooks {
  // Of a run of a candidate; nothing is compiled or run then.
  std::function<std::optional<double>(const Candidate&)> seconds;
  // Puts more candidates beside those found.
  std::function<void(std::vector<Candidate>&)> plant;
  std::function<double()> clock;  // seconds
  std::optional<std::uint64_t> least_bytes;
};
VOLTA_BACKEND_API void set_tuner_hooks(TunerHooks hooks);

}  // namespace volta::plan
