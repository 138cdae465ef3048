// The cost of planning a graph of a new structure, by the size of the graph.
//   volta_planning [--only NAME] [--most SIZE]
// Every graph is evaluated a few times: milliseconds of this thread beyond those of an evaluation
// that builds no plan, in all, per recorded node and per value of the planner; the kernels of an
// evaluation; and per value what the planner's stages looked at (plan/lower/visits.h). A size is
// planned once in a process.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>

#include "measuring.h"
#include "plan/lower/visits.h"
#include "planned_graphs.h"

namespace {

using namespace volta;

struct Options {
  std::string only;
  int most = std::numeric_limits<int>::max();
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw bench::UsageError("no value for " + name);
    const std::string value = argv[i + 1];
    if (name == "--only") {
      options.only = value;
    } else if (name == "--most") {
      options.most = std::atoi(value.c_str());
    } else {
      throw bench::UsageError("unknown option " + name);
    }
  }
  return options;
}

double processor_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Planning {
  double seconds = 0;  // of the evaluations that build plans, less what one takes that builds none
  std::uint64_t nodes = 0;     // recorded for these evaluations
  std::uint64_t launches = 0;  // kernels that the last evaluation ran
};

// Evaluates the graph a few times.
Planning plan_graph(bench::PlannedGraph& graph) {
  constexpr int kEvaluations = 5;
  double building = 0, repeated = std::numeric_limits<double>::max();
  int builds = 0;
  Planning planning;
  for (int i = 0; i < kEvaluations; ++i) {
    const Counters before = counters();
    const double start = processor_seconds();
    for (const Tensor& tensor : graph.record()) tensor.eval();
    const double seconds = processor_seconds() - start;
    const Counters after = counters();
    planning.launches = after.launches - before.launches;
    if (after.plans_built == before.plans_built) {
      repeated = std::min(repeated, seconds);
    } else {
      building += seconds;
      planning.nodes += after.nodes_recorded - before.nodes_recorded;
      ++builds;
    }
  }
  planning.seconds = building - builds * repeated;
  return planning;
}

void measure(const bench::GraphFamily& family, int size) {
  const auto graph = family.make(size);
  reset_counters();
  plan::visits() = {};
  const Planning planning = plan_graph(*graph);
  const plan::Visits& visits = plan::visits();
  const auto values = static_cast<double>(visits.lowered);
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "| %-19s | %5d | %5llu | %5llu | %5llu | %6llu | %6.0f | %7llu | %9.2f | %7.2f | %8.2f |",
      family.name.c_str(), size, number(counters().plans_built), number(visits.groupings),
      number(visits.rounds), number(planning.nodes), values, number(planning.launches),
      planning.seconds * 1e3, planning.seconds * 1e6 / static_cast<double>(planning.nodes),
      planning.seconds * 1e6 / values);
  for (const std::uint64_t count : {visits.marked, visits.walked, visits.paired, visits.searched,
                                    visits.shared, visits.merged, visits.placed}) {
    std::printf(" %6.2f |", static_cast<double>(count) / values);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  std::printf(
      "| graph               |  size | plans | grpgs | rnds  | nodes  | values | kernels | ms      "
      "  | "
      "µs/node | µs/value | "
      "marked "
      "| walked | paired | search | shared | merged | placed |\n"
      "| ------------------- | ----: | ----: | ----: | ----: | -----: | -----: | ------: | "
      "--------: | "
      "------: | -------: | "
      "-----: "
      "| -----: | -----: | -----: | -----: | -----: | -----: |\n");
  for (const bench::GraphFamily& family : bench::graph_families()) {
    if (family.name.find(options.only) == std::string::npos) continue;
    for (const int size : family.sizes) {
      if (size <= options.most) measure(family, size);
    }
  }
  return 0;
} catch (const bench::UsageError& error) {
  std::fprintf(stderr, "%s\nusage: volta_planning [--only NAME] [--most SIZE]\n", error.what());
  return 2;
}
