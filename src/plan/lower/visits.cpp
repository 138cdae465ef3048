// The counters of planning work, and the planning state of a thread.
#include "plan/lower/visits.h"

#include "core/thread_owned.h"
#include "plan/lower/thread_state.h"

namespace volta::plan {

ThreadState& thread_state() { return ThreadOwned<ThreadState>::get(); }

Visits& visits() { return thread_state().visits; }

}  // namespace volta::plan
