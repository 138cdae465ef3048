// Planning work grows linearly with the graph. It is counted (plan/lower/visits.h), because times
// depend on the machine.
#include <gtest/gtest.h>

#include <cstdint>

#include "../../bench/planned_graphs.h"
#include "plan/lower/visits.h"
#include "support/closed_sizes.h"

namespace {

using namespace volta;

// The work of the first evaluation of the graph. Plans are cached, so every test has its own sizes.
template <class Graph>
plan::Visits visits_of(int size) {
  const ClosedSizes closed;
  Graph graph(size);
  plan::visits() = {};
  for (const Tensor& tensor : graph.record()) tensor.eval();
  return plan::visits();
}

// Twice the size takes at most 2.2 times the work, in every phase counted here that is large enough
// to tell. Finding room in the arena takes a logarithm of the temporaries more, and is left out if
// many temporaries of different sizes live at the same time, because it visits the gaps between
// them. Path searches and merging still grow a little faster in deep stacks, whose tests pass their
// own factor.
enum class Arena : std::uint8_t { Counted, LeftOut };
template <class Graph>
void expect_linear(int size, Arena arena = Arena::Counted, double deep = 2.2) {
  const plan::Visits once = visits_of<Graph>(size), twice = visits_of<Graph>(2 * size);
  const auto compare = [&](const char* stage, std::uint64_t plan::Visits::* count, double factor) {
    EXPECT_LE(static_cast<double>(twice.*count),
              factor * static_cast<double>(once.*count) + 0.1 * static_cast<double>(once.lowered))
        << stage << " of " << size << " and " << 2 * size;
  };
  EXPECT_GT(once.lowered, 0u);
  compare("lowered", &plan::Visits::lowered, 2.2);
  compare("marked", &plan::Visits::marked, 2.2);
  compare("walked", &plan::Visits::walked, 2.2);
  compare("paired", &plan::Visits::paired, 2.2);
  compare("searched", &plan::Visits::searched, deep);
  compare("shared", &plan::Visits::shared, 2.2);
  compare("merged", &plan::Visits::merged, deep);
  if (arena == Arena::Counted) compare("placed", &plan::Visits::placed, 3);
  EXPECT_LE(twice.groupings, once.groupings);
  EXPECT_LE(twice.rounds, once.rounds + 1);
}

TEST(PlanningCost, Chain) { expect_linear<bench::Chain>(2000); }
TEST(PlanningCost, Tree) { expect_linear<bench::Tree>(1000); }
TEST(PlanningCost, LargeTree) { expect_linear<bench::Tree>(1900); }
TEST(PlanningCost, WideFan) { expect_linear<bench::Fan>(250); }
TEST(PlanningCost, FanOfFourThousandReaders) { expect_linear<bench::Fan>(2000); }
TEST(PlanningCost, FanOverSeveralSpaces) { expect_linear<bench::MixedFan>(250); }
TEST(PlanningCost, LargeFanOverSeveralSpaces) { expect_linear<bench::MixedFan>(1000); }
TEST(PlanningCost, Independent) { expect_linear<bench::Independent>(500); }
TEST(PlanningCost, AdamOfAThousandParameters) { expect_linear<bench::AdamStep>(500); }
TEST(PlanningCost, AttentionStack) { expect_linear<bench::Transformer>(24, Arena::LeftOut, 2.6); }

// Values worth storing are chosen for all layers at once.
TEST(PlanningCost, RoundsDoNotGrowWithDepth) {
  EXPECT_LE(visits_of<bench::Transformer>(16).rounds, visits_of<bench::Transformer>(8).rounds + 1);
}

}  // namespace
