// Alternatives to the schedule that choose_schedule gives a kernel.
#pragma once

#include <span>
#include <vector>

#include "backend/steps.h"
#include "kernel/program.h"

namespace volta::plan {

// Schedules other than the program's own that are valid for the sizes of all segments. They compute
// the same results except for the order in which a row is summed. At most a dozen are returned, the
// most promising first; the list depends only on the arguments.
VOLTA_BACKEND_API std::vector<kernel::Schedule> alternatives(const kernel::Program& program,
                                                             std::span<const Binding> segments);

}  // namespace volta::plan
