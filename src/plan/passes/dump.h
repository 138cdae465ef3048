// VOLTA_DUMP_PASSES=FOLDER writes the values of every plan, after lowering and after each pass.
#pragma once

#include <cstdint>

#include "plan/lower/ir.h"

namespace volta::plan {

// Whether VOLTA_DUMP_PASSES is set.
bool dumps_passes();

// Writes the values into the folder as `plan00007.3-turn_products.txt`: the number of the plan, and
// the number and name of the pass. `what` describes the pass. A folder that cannot be written
// causes one warning. Each value is a line with number, kind, dtype, shape, operands, attributes
// and label.
void dump_values(const Graph& graph, std::uint32_t plan, int number, const char* pass,
                 const char* what);

}  // namespace volta::plan
