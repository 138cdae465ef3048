// How much timing this process may do: what VOLTA_TUNE says, and the account of what was spent.
#pragma once

#include <cstdint>

#include "volta/export.h"

namespace volta {

// Off: the usual ways and nothing else. Read: what is known of earlier timings. Time: and what is
// not known is timed.
enum class Tuning : std::uint8_t { Off, Read, Time };

// Of schedules, for a device that is a GPU or not: timings on a shared CPU are noise, so there it
// is off unless asked for. Throws ArgumentError for a VOLTA_TUNE that says nothing.
VOLTA_BACKEND_API Tuning schedule_tuning(bool is_gpu);
// Of the algorithms of libraries, whose time is bounded shape by shape.
VOLTA_BACKEND_API Tuning library_tuning();

// Seconds of this process's bound that are left for schedules; none or less: it is spent.
VOLTA_BACKEND_API double tuning_seconds_left();
VOLTA_BACKEND_API void spend_tuning_seconds(double seconds);

}  // namespace volta
