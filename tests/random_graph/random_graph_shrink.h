// Reduces a failing random program: statements are dropped, bypassed or replaced by plain data as
// long as it still fails.
#pragma once

#include <functional>

#include "random_graph/random_graph_program.h"

namespace volta::random_graph {

// Removes a statement and all statements that use its result.
Program without(const Program& program, std::size_t position);

// Returns the smallest failing program found; `fails` is called at most `most` times.
Program shrunk(Program program, const std::function<bool(const Program&)>& fails, int most = 3000);

}  // namespace volta::random_graph
