// Other schedules for a kernel than the one that choose_schedule gives it.
#pragma once

#include <span>
#include <vector>

#include "kernel/program.h"
#include "plan/plan_steps.h"

namespace volta::plan {

// Schedules, other than its own, under which the program may be given the numbers of all segments
// and computes the same but for the order in which a row is added up; the most promising first, a
// dozen at most. A function of its arguments alone.
VOLTA_BACKEND_API std::vector<kernel::Schedule> alternatives(const kernel::Program& program,
                                                             std::span<const Binding> segments);

}  // namespace volta::plan
