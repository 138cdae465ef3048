// What planning keeps for each thread: one object, because thread-local memory is scarce in
// programs that open libvolta late (platform/thread_local.h).
#pragma once

#include "plan/lower/visits.h"

namespace volta::plan {

class OpenSizes;

struct ThreadState {
  Visits visits;
  OpenSizes* sizes = nullptr;  // those of the plan being made
};
ThreadState& thread_state();

}  // namespace volta::plan
