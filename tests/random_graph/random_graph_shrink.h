// Makes a failing random program small: statements dropped, bypassed or replaced by plain data for
// as long as it still fails.
#pragma once

#include <functional>

#include "random_graph/random_graph_program.h"

namespace volta::random_graph {

// Without a statement and whatever uses what it made.
Program without(const Program& program, std::size_t position);

// The smallest failing program found; `fails` is asked at most `most` times.
Program shrunk(Program program, const std::function<bool(const Program&)>& fails, int most = 3000);

}  // namespace volta::random_graph
