// Runs random programs on the device under test and compares them with the double-precision
// reference.
//   VOLTA_RANDOM_GRAPHS=first:count   seeds other than the default ones
// On GPUs there are few default seeds, because compiling a kernel takes a tenth to a third of a
// second.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "random_graph/random_graph_evaluator.h"
#include "random_graph/random_graph_generator.h"
#include "random_graph/random_graph_runner.h"
#include "random_graph/random_graph_shrink.h"
#include "support/test_device.h"

namespace volta::random_graph {
namespace {

constexpr int kParts = 4;  // divided among shards

struct Range {
  std::uint64_t first = 0, count = 0;
};

Range seeds() {
  if (const char* text = std::getenv("VOLTA_RANDOM_GRAPHS")) {
    char* end = nullptr;
    const std::uint64_t first = std::strtoull(text, &end, 10);
    return {first, *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1};
  }
  switch (test_device().type()) {
    case DeviceType::cpu:
      return {0, 2000};
    case DeviceType::cuda:
      return {0, 400};
    default:
      return {0, 60};
  }
}

GeneratorOptions options_here() {
  GeneratorOptions options;
  std::erase_if(options.floats, [](DType dtype) { return !test_device().supports(dtype); });
  if (test_device().type() == DeviceType::opencl) options.most_statements = 10;  // fewer kernels
  return options;
}

std::string report(std::uint64_t seed, const Program& program, const std::string& message) {
  const Program small =
      shrunk(program, [](const Program& p) { return run(p, test_device()).failed(); }, 3000);
  const Outcome again = run(small, test_device());
  return fmt::format(
      "seed {} on {}: {}\n{}{}\nthe smallest program that fails ({} of {} statements):\n{}"
      "run again: VOLTA_RANDOM_GRAPHS={}:1 volta_tests --device={} "
      "--gtest_filter='*RandomGraphs*'\n",
      seed, to_string(test_device()), message, again.failed() ? "" : "(not when run again) ",
      again.message, small.statements.size(), program.statements.size(), to_string(small), seed,
      to_string(test_device()));
}

class RandomGraphs : public testing::TestWithParam<int> {};

TEST_P(RandomGraphs, AgreeWithTheReference) {
  const Range range = seeds();
  const GeneratorOptions options = options_here();
  int failures = 0;
  for (std::uint64_t i = static_cast<std::uint64_t>(GetParam()); i < range.count; i += kParts) {
    const std::uint64_t seed = range.first + i;
    const Program program = generated(seed, options);
    const Outcome outcome = run(program, test_device());
    if (outcome.kind == Outcome::Kind::passed) continue;
    ADD_FAILURE() << report(seed, program, outcome.message);
    if (++failures == 8) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Part, RandomGraphs, testing::Range(0, kParts));

// Every operation is drawn, and nearly every element can be compared; a tensor counts as one,
// whatever its size.
TEST(RandomGraphDrawing, CoversTheLanguage) {
  std::map<Op, int> drawn;
  double tensors = 0, unknown = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Program program = generated(seed);
    Evaluator reference(program);
    for (int round = 0; round < program.rounds; ++round) {
      reference.begin_round(round);
      for (std::size_t i = 0; i < program.statements.size(); ++i) {
        const Statement& s = program.statements[i];
        reference.step(s, i);
        ++drawn[s.op];
        if (s.out < 0) continue;
        const std::vector<Num>& elements = reference.tensor(s.out)->value.at;
        if (elements.empty()) continue;
        const auto lost = std::count_if(elements.begin(), elements.end(),
                                        [](const Num& n) { return !(n.e < kUnknown); });
        tensors += 1;
        unknown += static_cast<double>(lost) / static_cast<double>(elements.size());
      }
      reference.end_round();
    }
  }
  for (int op = 0; op <= static_cast<int>(Op::submit); ++op) {
    EXPECT_GE(drawn[static_cast<Op>(op)], 20) << name_of(static_cast<Op>(op));
  }
  EXPECT_LT(unknown, tensors / 100);
}

// If the reference computes one operation wrongly, this is detected (on the CPU: a few hundred
// kernels), and the reduced program is little more than that operation.
TEST(RandomGraphShrinking, FindsAWrongOperation) {
  for (const Op wrong : {Op::tanh, Op::maximum, Op::sum, Op::prod, Op::stride, Op::concat,
                         Op::cumsum, Op::sort, Op::take_along_axis}) {
    bool found = false;
    for (std::uint64_t seed = 0; seed < 300 && !found; ++seed) {
      const Program program = generated(seed);
      const auto fails = [&](const Program& p) { return run(p, Device::cpu(), wrong).failed(); };
      if (!fails(program)) continue;
      found = true;
      const Program small = shrunk(program, fails);
      EXPECT_TRUE(fails(small));
      EXPECT_LE(small.statements.size(), 3u) << to_string(small);
      EXPECT_NE(to_string(small).find(name_of(wrong)), std::string::npos) << to_string(small);
    }
    EXPECT_TRUE(found) << name_of(wrong);
  }
}

}  // namespace
}  // namespace volta::random_graph
