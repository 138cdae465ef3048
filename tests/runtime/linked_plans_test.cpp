// Steps that never repeat: their plans are linked from stretches that were planned before. A linked
// plan computes what the plan of the whole batch computes. Kernels that are cut elsewhere round
// elsewhere: a product and a sum in one kernel are rounded once where the processor can do that,
// and the order of a sum's terms is that of its kernel. So exact programs are compared bit by bit,
// and others in f64, where rounding is 1e-16.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fault_training.h"
#include "runtime/faulty_process.h"
#include "runtime/linking.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace {

using namespace volta;
using plan::Linking;

// While an object lives, all plans are linked, or none.
struct With {
  explicit With(Linking linking) {
    empty_cache(test_device());
    plan::set_linking(linking);
  }
  ~With() { plan::set_linking(Linking::WhereStepsVary); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;
};

TensorOptions here() { return {.device = test_device()}; }

Tensor numbers(const Shape& shape, int salt) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<float>((i * 37 + static_cast<std::size_t>(salt) * 11) % 31) / 16 - 0.9375f;
  return from_vector(values, shape, here()).to(DType::f64);
}

// Losses, then parameters.
using Values = std::vector<std::vector<double>>;
void expect_close(const Values& a, const Values& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t n = 0; n < a.size(); ++n) {
    ASSERT_EQ(a[n].size(), b[n].size()) << n;
    for (std::size_t i = 0; i < a[n].size(); ++i)
      ASSERT_NEAR(a[n][i], b[n][i], relative * (1 + std::abs(b[n][i]))) << n << ", " << i;
  }
}

// A program that trains: modules, and steps that draw what they do.
class Program {
 public:
  explicit Program(std::uint32_t seed) : draw(seed) {}
  virtual ~Program() = default;
  // Records a loss.
  virtual Tensor loss() = 0;

  // Trains; returns the losses and parameters.
  virtual Values train(int steps) {
    Values values;
    for (int n = 0; n < steps; ++n) values.push_back({step()});
    for (const Tensor& parameter : parameters_) values.push_back(parameter.to_vector<double>());
    return values;
  }
  double step() {
    optimizer_->zero_grad();
    const Tensor value = loss();
    value.backward();
    if (clips) nn::clip_grad_norm(parameters_, 0.5);
    optimizer_->step();
    return value.item<double>();
  }

  std::mt19937 draw;
  bool clips = false;

 protected:
  // Every module has numbers of its own, the same in every program.
  void add(nn::Module& module) {
    module.to(test_device()).to(DType::f64);
    for (Tensor parameter : module.parameters()) {
      const NoGrad off;
      parameter.copy_(numbers(parameter.shape(), static_cast<int>(parameters_.size())) / 4);
      parameters_.push_back(parameter);
    }
  }
  void optimize() {
    optimizer_ = std::make_unique<optim::Adam>(parameters_, optim::AdamOptions{.lr = 1e-3});
  }
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::Adam> optimizer_;
};

// Residual blocks of attention and a perceptron; a step leaves out branches.
class StochasticDepth : public Program {
 public:
  explicit StochasticDepth(int blocks, std::uint32_t seed = 5) : Program(seed), blocks_(blocks) {
    add(words_);
    for (Block& block : blocks_) {
      for (nn::Module* module : std::initializer_list<nn::Module*>{
               &block.before, &block.attention, &block.between, &block.wide, &block.narrow})
        add(*module);
    }
    add(head_);
    optimize();
  }
  Tensor loss() override {
    const Tensor ids = (arange(0, 16, 1, here()).to(DType::i64) % 24).reshape({2, 8});
    Tensor x = words_(ids);
    for (Block& block : blocks_) {
      if (takes_part()) {
        const Tensor y = block.before(x);
        x = x + block.attention(y, y, y);
      }
      if (takes_part()) x = x + block.narrow(gelu(block.wide(block.between(x))));
    }
    return cross_entropy(head_(x).reshape({16, 24}), ids.reshape({16}));
  }
  double share = 0.8;

 private:
  struct Block {
    nn::LayerNorm before{16}, between{16};
    nn::MultiheadAttention attention{16, 2};
    nn::Linear wide{16, 32}, narrow{32, 16};
  };
  bool takes_part() { return static_cast<double>(draw() % 1000) < share * 1000; }

  nn::Embedding words_{24, 16};
  std::vector<Block> blocks_;
  nn::Linear head_{16, 24};
};

// A recurrence that the user writes, over sequences of any length.
class Recurrence : public Program {
 public:
  explicit Recurrence(std::uint32_t seed = 3) : Program(seed) {
    add(cell_);
    add(head_);
    optimize();
  }
  Tensor loss() override {
    const std::int64_t length = 3 + static_cast<std::int64_t>(draw() % 30);
    nn::LSTMState state = cell_(numbers({4, 8}, 0));
    for (int t = 1; t < length; ++t) state = cell_(numbers({4, 8}, t), state);
    return (head_(state.h) - 0.5).square().mean();
  }

 private:
  nn::LSTMCell cell_{8, 12};
  nn::Linear head_{12, 1};
};

// A network whose structure is a tree, another one in each step.
class Trees : public Program {
 public:
  explicit Trees(std::uint32_t seed = 9) : Program(seed) {
    add(leaf_);
    add(join_);
    add(gate_);
    add(head_);
    optimize();
  }
  Tensor loss() override {
    const Tensor root = tree(8 + static_cast<int>(draw() % 8));
    return (head_(root) - 1).square().mean();
  }

 private:
  Tensor tree(int leaves) {
    if (leaves == 1) return tanh(leaf_(numbers({3, 6}, static_cast<int>(draw() % 5))));
    const int left = 1 + static_cast<int>(draw() % static_cast<unsigned>(leaves - 1));
    const Tensor a = tree(left), b = tree(leaves - left);
    const Tensor both = concat({a, b}, 1);
    return sigmoid(gate_(both)) * tanh(join_(both)) + (a + b) * 0.5;
  }
  nn::Linear leaf_{6, 10}, join_{20, 10}, gate_{20, 10}, head_{10, 1};
};

// Residual blocks of convolutions, whose values cross with their channels last.
class Images : public Program {
 public:
  explicit Images(std::uint32_t seed = 4) : Program(seed) {
    add(first_);
    for (Block& block : blocks_) {
      add(block.conv);
      add(block.norm);
    }
    add(head_);
    optimize();
  }
  Tensor loss() override {
    Tensor x = relu(first_(numbers({2, 3, 8, 8}, 1)));
    for (Block& block : blocks_) {
      if (draw() % 4 != 0) x = relu(x + block.norm(block.conv(x)));
    }
    return (head_(x.mean({2, 3})) - 0.5).square().mean();
  }

 private:
  struct Block {
    nn::Conv2d conv{6, 6, 3, {.padding = 1}};
    nn::BatchNorm2d norm{6};
  };
  nn::Conv2d first_{3, 6, 3, {.padding = 1}};
  std::vector<Block> blocks_ = std::vector<Block>(8);
  nn::Linear head_{6, 1};
};

// A small tree of a few operations, joined in any order: long stretches of it hardly come again.
class SmallTrees : public Program {
 public:
  explicit SmallTrees(std::uint32_t seed = 2) : Program(seed) {
    add(join_);
    add(head_);
    optimize();
  }
  Tensor loss() override {
    const std::int64_t leaves = 6 + static_cast<std::int64_t>(draw() % 8);
    const Tensor words = numbers({13, 6}, 1);
    std::vector<Tensor> parts;
    for (std::int64_t n = 0; n < leaves; ++n) parts.push_back(words.narrow(0, n, 1));
    while (parts.size() > 1) {
      const std::size_t at = draw() % (parts.size() - 1);
      parts[at] = tanh(join_(concat({parts[at], parts[at + 1]}, 1)));
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return (head_(parts.front()) - 1).square().mean();
  }

 private:
  nn::Linear join_{12, 6}, head_{6, 1};
};

// The same training with plans linked in this way and with whole ones.
template <class Made>
std::pair<Values, Values> linked_and_whole(const Made& make, int steps, bool clips,
                                           Linking linking = Linking::Always) {
  const auto train = [&](Linking wanted) {
    const With with(wanted);
    auto program = make();
    program.clips = clips;
    return program.train(steps);
  };
  submit(test_device());  // what an earlier test recorded
  const Counters before = counters();
  Values linked = train(linking);
  EXPECT_GT(counters().plans_linked, before.plans_linked);
  EXPECT_EQ(counters().plans_built, before.plans_built);
  const std::uint64_t links = counters().plans_linked;
  Values whole = train(Linking::Never);
  EXPECT_EQ(counters().plans_linked, links);
  return {std::move(linked), std::move(whole)};
}
template <class Made>
void expect_values_of_whole_plans(const Made& make, int steps, bool clips = false) {
  for (const Linking linking : {Linking::Always, Linking::AlwaysShort}) {
    SCOPED_TRACE(linking == Linking::Always ? "long stretches" : "short stretches");
    const auto [linked, whole] = linked_and_whole(make, steps, clips, linking);
    expect_close(linked, whole, 1e-11);
  }
}

TEST(LinkedPlans, StochasticDepthTrainsAsWithWholePlans) {
  expect_values_of_whole_plans([] { return StochasticDepth(4); }, 6);
}
TEST(LinkedPlans, ClippedStepsTrainAsWithWholePlans) {
  expect_values_of_whole_plans([] { return StochasticDepth(3); }, 5, true);
}
TEST(LinkedPlans, RecurrencesTrainAsWithWholePlans) {
  expect_values_of_whole_plans([] { return Recurrence(); }, 6, true);
}
TEST(LinkedPlans, TreesTrainAsWithWholePlans) {
  expect_values_of_whole_plans([] { return Trees(); }, 6);
}

TEST(LinkedPlans, SmallTreesTrainAsWithWholePlans) {
  expect_values_of_whole_plans([] { return SmallTrees(); }, 6);
}

TEST(LinkedPlans, ConvolutionsTrainAsWithWholePlans) {
  expect_values_of_whole_plans([] { return Images(); }, 5);
}

// All numbers are multiples of powers of two and small: no operation rounds, whatever its order.
TEST(LinkedPlans, ExactProgramsHaveTheBitsOfWholePlans) {
  // Each program has kernels of its own, which GPUs compile for minutes.
  const std::uint32_t programs = test_device().is_cpu() ? 40 : 5;
  const auto run = [&](Linking linking) {
    const With with(linking);
    Values values;
    for (std::uint32_t seed = 0; seed < programs; ++seed) {
      std::mt19937 draw(seed);
      std::vector<Tensor> weights;
      for (int n = 0; n < 6; ++n) {
        weights.push_back(floor(numbers({8, 8}, n) * 2));
        weights.back().set_requires_grad(true);
      }
      Tensor x = matmul(floor(numbers({5, 8}, 9) * 4), weights[0]) * 0.125;
      for (int n = 0; n < 12; ++n) {
        const Tensor& weight = weights[draw() % 6];
        switch (draw() % 6) {
          case 0:
            x = relu(matmul(x, weight)) * 0.25 + x;
            break;
          case 1:
            x = x - x.transpose(0, 1).sum(0).reshape({5, 1}) * 0.125;
            break;
          case 2:
            x = maximum(x, weight.narrow(0, 0, 5)) - 1;
            break;
          case 3:
            x = concat({x.narrow(1, 4, 4), x.narrow(1, 0, 4) * 2}, 1);
            break;
          case 4:
            x = where(x > 0, x, x * 0.5) + weight.sum(0).detach();
            break;
          default:
            x = x + x.narrow(0, static_cast<std::int64_t>(draw() % 5), 1).expand({5, 8});
        }
      }
      const Tensor loss = x.sum();
      loss.backward();
      values.push_back({loss.item<double>()});
      for (const Tensor& weight : weights) {
        if (weight.grad().defined()) values.push_back(weight.grad().to_vector<double>());
      }
      values.push_back(x.detach().to_vector<double>());
    }
    return values;
  };
  const Values whole = run(Linking::Never);
  for (const Linking linking : {Linking::Always, Linking::AlwaysShort}) {
    const Values linked = run(linking);
    ASSERT_EQ(linked.size(), whole.size());
    for (std::size_t n = 0; n < linked.size(); ++n) {
      for (std::size_t i = 0; i < linked[n].size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint64_t>(linked[n][i]),
                  std::bit_cast<std::uint64_t>(whole[n][i]))
            << n << ", " << i << ": " << linked[n][i] << " and " << whole[n][i];
    }
  }
}

// After the warm-up, further steps are other graphs made of known stretches.
void expect_settles(Program& program, int warm_up, int steps, std::uint64_t most_stretches) {
  empty_cache(test_device());
  for (int n = 0; n < warm_up; ++n) program.step();
  const Counters before = counters();
  for (int n = 0; n < steps; ++n) program.step();
  const Counters now = counters();
  EXPECT_GE(now.plans_linked - before.plans_linked, static_cast<std::uint64_t>(steps) / 2);
  EXPECT_LE(now.stretches_planned - before.stretches_planned, most_stretches);
  if (most_stretches == 0) {
    EXPECT_EQ(now.compilations, before.compilations);
    EXPECT_EQ(now.plans_built, before.plans_built);
  }
}

TEST(LinkedPlans, StochasticDepthPlansNothingAnyMore) {
  StochasticDepth program(12);
  expect_settles(program, 24, 20, 0);
}
TEST(LinkedPlans, ClippedStochasticDepthPlansNothingAnyMore) {
  StochasticDepth program(8);
  program.clips = true;
  expect_settles(program, 60, 20, 3);  // norms of other numbers of gradients are joined
}
TEST(LinkedPlans, TreesPlanLittleAfterAWhile) {
  Trees program;
  expect_settles(program, 60, 20, 20);
}

TEST(LinkedPlans, SmallTreesPlanNothingAnyMore) {
  SmallTrees program;
  expect_settles(program, 40, 20, 0);
}

// What repeats gets the plans of a whole step, from the first one on.
TEST(LinkedPlans, StepsThatRepeatAreNeverLinked) {
  empty_cache(test_device());
  StochasticDepth program(6);
  program.share = 1;
  const Counters before = counters();
  for (int n = 0; n < 12; ++n) program.step();
  EXPECT_EQ(counters().plans_linked, before.plans_linked);
  EXPECT_LE(counters().plans_built - before.plans_built, 6u);
}

// A structure that keeps coming back is planned as a whole.
TEST(LinkedPlans, StepsThatSettleArePlannedAsAWhole) {
  empty_cache(test_device());
  StochasticDepth program(6);
  for (int n = 0; n < 10; ++n) program.step();
  program.share = 1;
  for (int n = 0; n < 4; ++n) program.step();
  const Counters before = counters();
  for (int n = 0; n < 4; ++n) program.step();
  EXPECT_EQ(counters().plans_linked, before.plans_linked);
  EXPECT_EQ(counters().plans_built, before.plans_built);
}

TEST(LinkedPlans, ExplainSaysThatAPlanIsLinked) {
  Trees program;
  const auto text = [&] {
    const Tensor loss = program.loss();
    const Explanation explanation = explain(loss);
    EXPECT_FALSE(explanation.steps.empty());
    for (const ResultInfo& result : explanation.results) EXPECT_GT(result.step, 0) << result.what;
    std::ostringstream out;
    out << explanation;
    return std::pair(explanation.stretches, out.str());
  };
  {
    const With never(Linking::Never);
    EXPECT_EQ(text().first, 0);
  }
  const With always(Linking::Always);
  const auto [stretches, words] = text();
  EXPECT_GT(stretches, 1);
  EXPECT_NE(words.find("linked from " + std::to_string(stretches) + " stretches"),
            std::string::npos)
      << words;
}

// Everything that is kept is counted, and given back.
TEST(LinkedPlans, TheirMemoryIsBounded) {
  const With always(Linking::Always);
  StochasticDepth program(6);
  for (int n = 0; n < 3; ++n) program.step();
  const MemoryStats few = memory_stats(test_device());
  for (int n = 0; n < 100; ++n) program.step();
  const MemoryStats many = memory_stats(test_device());
  EXPECT_GT(few.plan_bytes, 0u);
  EXPECT_LE(many.cached_plans, few.cached_plans + plan::kMaxLinkedPlans);
  empty_cache(test_device());
  EXPECT_EQ(memory_stats(test_device()).plan_bytes, 0u);
}

// Index checks of a linked plan name the operation that was recorded, whichever stretch checks.
TEST(LinkedPlans, WrongIndicesAreReported) {
  const auto error = [](Linking linking, std::size_t wrong) {
    const With with(linking);
    Tensor x = numbers({6, 4}, 1);
    for (std::size_t place = 0; place < 3; ++place) {
      for (int n = 0; n < 20; ++n) x = tanh(x + 0.25);
      const std::vector<std::int64_t> ids{0, place == wrong ? 17 : 1, 2, 3, 4, 5};
      const Tensor rows = from_vector(ids, {6}, here());
      if (place == 0) x = index_select(x, 0, rows);
      if (place == 1) x = index_select(x.transpose(0, 1), 1, rows).transpose(0, 1);
      if (place == 2) x = take_along_axis(x, rows.reshape({6, 1}).expand({6, 4}), 0);
    }
    try {
      x.to_vector<double>();
    } catch (const IndexError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (std::size_t place = 0; place < 3; ++place) {
    const std::string linked = error(Linking::Always, place);
    EXPECT_NE(linked, "");
    EXPECT_EQ(linked, error(Linking::Never, place));
  }
  EXPECT_EQ(error(Linking::Always, 3), "");
}

// A step of a linked plan that fails leaves everything as it was.
TEST(LinkedPlans, AFailedStepCanBeRepeated) {
  using namespace testing_faults;
  with_faults([] {
    const With always(Linking::Always);
    const auto nothing = [] {};
    forget_plans();
    const Outcome expected = train(3, 2, nothing, nothing);
    long calls = 0;
    forget_plans();
    train(3, 2, [] { faults().count(); }, [&] { calls = faults().calls, faults().count(); });
    ASSERT_GT(calls, 0);
    ASSERT_GT(counters().plans_linked, 0u);
    for (long call = 1; call <= calls; ++call) {
      forget_plans();
      std::string failed;
      Outcome outcome = train(
          3, 2, [&] { faults().arm(call); },
          [&] {
            if (!faults().failed.empty()) failed = faults().failed;
            faults().count();
          });
      if (failed == "supports") continue;  // asked while a step is recorded
      SCOPED_TRACE("call " + std::to_string(call));
      EXPECT_TRUE(outcome.changed.empty()) << outcome.changed.front();
      // Plans of the failed attempt may have given back small results that they kept.
      EXPECT_LE(outcome.memory, expected.memory);
      outcome.memory = expected.memory;
      expect_equal(outcome, expected);
      if (testing::Test::HasFailure()) return;
    }
  });
}

// Operations whose results nobody holds run in no plan, also if a cut is between them.
TEST(LinkedPlans, WhatNobodyHoldsIsNotComputed) {
  const With linking(Linking::Always);
  const auto launches = [](bool has_dead) {
    const Tensor x = full({256}, 0.5, {.device = test_device()}).eval();
    const Counters before = counters();
    Tensor live = x;
    if (has_dead) {
      Tensor dead = x;
      for (int n = 0; n < 100; ++n) dead = tanh(dead + 0.25);
    }
    for (int n = 0; n < 100; ++n) live = tanh(live + 0.25);
    live.eval();
    return counters().launches - before.launches;
  };
  EXPECT_EQ(launches(true), launches(false));
}

}  // namespace
