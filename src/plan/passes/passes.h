// The passes, which rewrite all values of a batch between lowering and grouping.
#pragma once

#include <cstdint>

#include "plan/lower/ir.h"

namespace volta::plan {

// Runs the passes in the order of the table in passes.cpp. `plan` is the plan's number in the file
// names of VOLTA_DUMP_PASSES.
void run_passes(Graph& graph, std::uint32_t plan);

// The passes, with the files that contain them.
void lay_out_images(Graph& graph);   // layout.cpp
void round_products(Graph& graph);   // products.cpp
void turn_products(Graph& graph);    // products.cpp
void turn_attentions(Graph& graph);  // attentions.cpp
void fuse_epilogues(Graph& graph);   // epilogues.cpp
void place_parts(Graph& graph);      // joins.cpp

}  // namespace volta::plan
