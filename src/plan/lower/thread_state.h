// The planning state of a thread, in one object because thread-local memory is scarce in programs
// that open libvolta late (platform/thread_local.h).
#pragma once

#include "plan/lower/visits.h"

namespace volta::plan {

class OpenSizes;

struct ThreadState {
  Visits visits;
  OpenSizes* sizes = nullptr;  // sizes of the current plan
};
ThreadState& thread_state();

}  // namespace volta::plan
