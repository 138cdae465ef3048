// VOLTA_DUMP_PASSES=FOLDER: the values of every plan, after lowering and after each pass.
#pragma once

#include <cstdint>

#include "plan/lower/ir.h"

namespace volta::plan {

// Whether the variable is set.
bool dumps_passes();

// Writes the values into the folder as `plan00007.3-turn_products.txt`: number of the plan, number
// and name of the pass. `what` tells what the pass does. A folder that cannot be written is told
// once, as a warning. Each value is a line: number, kind, dtype, shape, operands, attributes,
// label.
void dump_values(const Graph& graph, std::uint32_t plan, int number, const char* pass,
                 const char* what);

}  // namespace volta::plan
