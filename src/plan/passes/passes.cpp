// The list of passes, in the order they run.
#include "plan/passes/passes.h"

#include "plan/passes/dump.h"

namespace volta::plan {
namespace {

struct Pass {
  const char* name;
  void (*run)(Graph&);
  const char* what;
};

constexpr Pass kPasses[] = {
    {"lay_out_images", lay_out_images,
     "images between convolutions are computed with their channels last"},
    {"merge_loops", merge_loops, "loops that do not need each other run side by side"},
    {"round_products", round_products,
     "products of halves round their results where only those are read"},
    {"turn_products", turn_products, "products compute their transpose where only that is read"},
    {"turn_attentions", turn_attentions,
     "attention writes results with heads first where they are held so"},
    {"fuse_epilogues", fuse_epilogues,
     "products and convolutions take over the biases and activations that follow"},
    {"place_parts", place_parts, "parts of a join get their places in the memory of the whole"},
};

}  // namespace

void run_passes(Graph& graph, const std::string& name) {
  const bool dumps = dumps_passes();
  int number = 0;
  if (dumps) dump_values(graph, name, number, "lowering", "the recorded nodes as values");
  for (const Pass& pass : kPasses) {
    pass.run(graph);
    ++number;
    if (dumps) dump_values(graph, name, number, pass.name, pass.what);
  }
}

}  // namespace volta::plan
