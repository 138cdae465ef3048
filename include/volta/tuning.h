// Kernel schedules that were chosen by timing them on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volta/export.h"

namespace volta {

// The origin of a choice: timed by this process, remembered from an earlier one, shipped with the
// library, or adopted from a checkpoint. Untimed is the usual schedule, for lack of time, memory or
// permission to time.
enum class TuningSource : std::uint8_t { Timed, Remembered, Shipped, Adopted, Untimed };

// The schedule of a kernel or product in this process.
struct TunedChoice {
  std::string device;         // name of the device
  std::string what;           // the operations
  std::string usual, chosen;  // schedules, as text
  TuningSource source = TuningSource::Untimed;
  double usual_seconds = 0, chosen_seconds = 0;  // seconds per run; 0 unless timed by this process
};

// Sets how many seconds this process may spend on timing schedules from now on, including
// compilation of candidates. It replaces VOLTA_TUNE and applies to all devices, not only GPUs. With
// 0 nothing is timed, and known schedules are used.
VOLTA_API void set_tuning_seconds(double seconds);
// The seconds spent on timing so far.
VOLTA_API double tuning_seconds_spent();

// The choices for kernels that were large enough to tune, each once, in the order of planning.
VOLTA_API std::vector<TunedChoice> tuned_choices();

// All choices timed on this machine and used by this process, including algorithms of libraries, as
// lines for src/backend/shipped_choices.def.
VOLTA_API std::string export_tuning();

}  // namespace volta
