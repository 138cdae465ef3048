// Schedules of kernels that were found by timing them on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volta/export.h"

namespace volta {

// Where a choice came from: timed by this process, by an earlier one, shipped with the library or
// adopted from a checkpoint; or Untimed, the usual one for want of time, memory or leave.
enum class TuningSource : std::uint8_t { Timed, Remembered, Shipped, Adopted, Untimed };

// What a kernel, or a product, runs as in this process.
struct TunedChoice {
  std::string device;         // its name
  std::string what;           // the operations
  std::string usual, chosen;  // schedules, as text
  TuningSource source = TuningSource::Untimed;
  double usual_seconds = 0, chosen_seconds = 0;  // of a run; 0 unless timed by this process
};

// The seconds that this process may spend on timing schedules, from now on, in place of what
// VOLTA_TUNE says, also on devices that are no GPUs; compiling candidates counts. 0: it goes by
// what is known of schedules and times none.
VOLTA_API void set_tuning_seconds(double seconds);
// What it has spent so far.
VOLTA_API double tuning_seconds_spent();

// The kernels large enough to be worth it that were planned so far, in that order, each once.
VOLTA_API std::vector<TunedChoice> tuned_choices();

// Everything that was timed on this machine and that this process went by, algorithms of libraries
// among it, as lines for src/backend/shipped_choices.def.
VOLTA_API std::string export_tuning();

}  // namespace volta
