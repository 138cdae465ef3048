// The passes: rewrites of all values of a batch, between lowering and grouping.
#pragma once

#include <string>

#include "plan/lower/ir.h"

namespace volta::plan {

// Runs the passes in the order of the table in passes.cpp. `name`: how files of VOLTA_DUMP_PASSES
// name the graph.
void run_passes(Graph& graph, const std::string& name);

// The passes, each in the file named.
void lay_out_images(Graph& graph);   // layout.cpp
void merge_loops(Graph& graph);      // loops.cpp
void round_products(Graph& graph);   // products.cpp
void turn_products(Graph& graph);    // products.cpp
void turn_attentions(Graph& graph);  // attentions.cpp
void fuse_epilogues(Graph& graph);   // epilogues.cpp
void place_parts(Graph& graph);      // joins.cpp

}  // namespace volta::plan
