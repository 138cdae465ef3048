// VOLTA_DUMP_PASSES=FOLDER: the values of every plan, after lowering and after each pass.
#pragma once

#include <string>

#include "plan/lower/ir.h"

namespace volta::plan {

// Whether the variable is set.
bool dumps_passes();

// Writes the values into the folder as `plan00007.3-turn_products.txt`: what they are `of` (a plan,
// or the body of a loop in it: `plan00007-loop0-body1`), number and name of the pass. `what` tells
// what the pass does. A folder that cannot be written is told once, as a warning. Each value is a
// line: number, kind, dtype, shape, operands, attributes, label.
void dump_values(const Graph& graph, const std::string& of, int number, const char* pass,
                 const char* what);

}  // namespace volta::plan
