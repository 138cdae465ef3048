// How much timing this process may do: the setting of VOLTA_TUNE, and the seconds spent so far.
#pragma once

#include <cstdint>

#include "volta/export.h"

namespace volta {

// Off: only defaults are used. Read: earlier timings are used too. Time: unknown candidates are
// timed.
enum class Tuning : std::uint8_t { Off, Read, Time };

// The setting for kernel schedules. On CPUs it is Off unless asked for, because timings on a shared
// CPU are noise. Throws ArgumentError if the value of VOLTA_TUNE is invalid.
VOLTA_BACKEND_API Tuning schedule_tuning(bool is_gpu);
// The setting for algorithms of libraries, whose timing is bounded for each shape separately.
VOLTA_BACKEND_API Tuning library_tuning();

// The seconds that are left in this process's budget for schedules; 0 or less if it is spent.
VOLTA_BACKEND_API double tuning_seconds_left();
VOLTA_BACKEND_API void spend_tuning_seconds(double seconds);

}  // namespace volta
