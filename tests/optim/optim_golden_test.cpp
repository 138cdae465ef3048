// Optimizers and schedulers against PyTorch (tests/golden/optim.py): ten steps of every optimizer,
// two groups; fifty learning rates of every scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optim/optim_cases.h"
#include "support/paths.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using optim_cases::Case;
using optim_cases::Training;

const StateDict& golden_values() {
  static const StateDict values =
      load(paths::golden_dir() + "/optim.safetensors", {.device = test_device()});
  return values;
}

std::vector<double> values_of(const Tensor& tensor) { return tensor.to_vector<double>(); }

// Every option has kernels of its own, so OpenCL compiles only a few.
bool runs_here(const Case& c) {
  return test_device().type() != DeviceType::opencl || std::string(c.name) == "lion0";
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance, const std::string& what, double largest = 0) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance * largest) << what << " at " << i;
}

bool is_muon(const Case& c) { return std::string(c.name).starts_with("muon"); }

TEST(GoldenOptim, TenSteps) {
  const StateDict& golden = golden_values();
  for (const Case& c : optim_cases::all()) {
    if (!runs_here(c)) continue;
    SCOPED_TRACE(c.name);
    const Training run(c, golden);
    run.steps(0, 10);
    const StateDict state = run.optimizer->state_dict();
    for (std::size_t i = 0; i < run.parameters.size(); ++i) {
      const std::string number = std::to_string(i), name = c.name;
      const std::vector<double> before =
          values_of(golden.at(std::string(c.inputs) + "/before" + number));
      // The tolerance is relative to how far the parameters moved, so that an update that is too
      // small fails. Muon's bf16 has eight bits, and products are added up in another order.
      const auto way = [&](const Tensor& now) {
        std::vector<double> values = values_of(now);
        for (std::size_t k = 0; k < values.size(); ++k) values[k] -= before[k];
        return values;
      };
      expect_close(way(run.parameters[i].detach()), way(golden.at(name + "/after" + number)),
                   is_muon(c) ? 1e-2 : 1e-5, "parameter " + number);
      const std::string prefix = name + "/state" + number + "/";
      std::size_t states = 0;
      for (const auto& [key, value] : golden) {
        if (!key.starts_with(prefix)) continue;
        const std::string mine = number + "." + key.substr(prefix.size());
        ASSERT_TRUE(state.contains(mine)) << mine;
        expect_close(values_of(state.at(mine)), values_of(value), 2e-6, mine);
        ++states;
      }
      for (const auto& [key, value] : state) states -= key.starts_with(number + ".") ? 1 : 0;
      EXPECT_EQ(states, 0u) << "PyTorch has as many states";
    }
  }
}

// Doubles have PyTorch's numbers too; halves are close to them.
TEST(GoldenOptim, OtherDtypes) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the programs are the same with other loads";
  for (const Case& c : optim_cases::all()) {
    for (const DType dtype : {DType::f64, DType::bf16}) {
      SCOPED_TRACE(std::string(c.name) + " " + std::string(name_of(dtype)));
      const Training run(c, golden_values(), dtype);
      run.steps(0, 10);
      for (std::size_t i = 0; i < run.parameters.size(); ++i) {
        const Tensor& now = run.parameters[i];
        EXPECT_EQ(now.dtype(), dtype);
        const double tolerance = dtype == DType::bf16 ? 2e-2 : is_muon(c) ? 2e-3 : 1e-5;
        const std::string number = std::to_string(i);
        // A half that became small was rounded while it was large.
        double before = 0;
        if (dtype == DType::bf16) {
          for (const double value :
               values_of(golden_values().at(std::string(c.inputs) + "/before" + number)))
            before = std::max(before, std::fabs(value));
        }
        expect_close(values_of(now.detach().to(DType::f64)),
                     values_of(golden_values().at(std::string(c.name) + "/after" + number)),
                     tolerance, "parameter " + number, before);
      }
    }
  }
}

// Five steps, a state dict and five steps of another optimizer equal ten steps.
TEST(GoldenOptim, ResumesBitForBit) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  for (const Case& c : optim_cases::all()) {
    SCOPED_TRACE(c.name);
    const Training whole(c, golden_values());
    whole.steps(0, 10);
    Training parts(c, golden_values());
    parts.steps(0, 5);
    const StateDict state = parts.optimizer->state_dict();
    parts.optimizer = c.make(parts.first_half(), parts.second_half());
    parts.optimizer->set_lr(7);
    parts.optimizer->load_state_dict(state);
    parts.steps(5, 10);
    for (std::size_t i = 0; i < whole.parameters.size(); ++i)
      EXPECT_EQ(values_of(parts.parameters[i]), values_of(whole.parameters[i])) << i;
    const StateDict one = whole.optimizer->state_dict(), other = parts.optimizer->state_dict();
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [key, value] : one)
      EXPECT_EQ(values_of(other.at(key)), values_of(value)) << key;
  }
}

using Scheduler = std::unique_ptr<optim::LRScheduler>;
struct Schedule {
  const char* name;
  std::function<Scheduler(optim::Optimizer&)> make;
};

template <class T, class Options>
std::function<Scheduler(optim::Optimizer&)> scheduler(Options options) {
  return [=](optim::Optimizer& optimizer) { return std::make_unique<T>(optimizer, options); };
}

const std::vector<Schedule>& schedules() {
  using namespace optim;
  using OneCycle = OneCycleLROptions;
  using Plateau = ReduceLROnPlateauOptions;
  static const std::vector<Schedule> all = {
      {"step", scheduler<StepLR>(StepLROptions{.step_size = 7, .gamma = 0.3})},
      {"multi_step",
       scheduler<MultiStepLR>(MultiStepLROptions{.milestones = {3, 10, 10, 31}, .gamma = 0.5})},
      {"exponential", scheduler<ExponentialLR>(ExponentialLROptions{.gamma = 0.93})},
      {"linear0", scheduler<LinearLR>(LinearLROptions{})},
      {"linear1", scheduler<LinearLR>(
                      LinearLROptions{.start_factor = 0.9, .end_factor = 0.1, .total_iters = 40})},
      {"cosine0", scheduler<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 50})},
      {"cosine1",
       scheduler<CosineAnnealingLR>(CosineAnnealingLROptions{.T_max = 12, .eta_min = 0.01})},
      {"warmup", scheduler<CosineLR>(CosineLROptions{
                     .total_steps = 50, .warmup_steps = 8, .start_factor = 0.1, .eta_min = 0.003})},
      {"one_cycle0", scheduler<OneCycleLR>(OneCycle{.max_lr = {0.7}, .total_steps = 51})},
      {"one_cycle1",
       scheduler<OneCycleLR>(
           OneCycle{.max_lr = {0.7, 0.1}, .total_steps = 51, .anneal_strategy = Anneal::linear})},
      {"one_cycle2", scheduler<OneCycleLR>(OneCycle{.max_lr = {0.7},
                                                    .total_steps = 51,
                                                    .pct_start = 0.35,
                                                    .div_factor = 10,
                                                    .final_div_factor = 50,
                                                    .three_phase = true})},
      {"one_cycle3", scheduler<OneCycleLR>(OneCycle{.max_lr = {0.7},
                                                    .total_steps = 51,
                                                    .anneal_strategy = Anneal::linear,
                                                    .base_momentum = {0.6, 0.7},
                                                    .max_momentum = {0.8, 0.9},
                                                    .three_phase = true})},
      {"one_cycle4", scheduler<OneCycleLR>(
                         OneCycle{.max_lr = {0.7}, .total_steps = 51, .cycle_momentum = false})},
      {"one_cycle_adam", scheduler<OneCycleLR>(OneCycle{.max_lr = {0.7}, .total_steps = 51})},
      {"plateau0", scheduler<ReduceLROnPlateau>(Plateau{.patience = 2})},
      {"plateau1", scheduler<ReduceLROnPlateau>(Plateau{
                       .factor = 0.5, .patience = 3, .cooldown = 4, .min_lr = {0.05, 0.01}})},
      {"plateau2", scheduler<ReduceLROnPlateau>(Plateau{.patience = 1,
                                                        .threshold = 0.02,
                                                        .threshold_mode = ThresholdMode::abs,
                                                        .min_lr = {1e-3}})},
      {"plateau3", scheduler<ReduceLROnPlateau>(Plateau{
                       .mode = PlateauMode::max, .factor = 0.7, .patience = 2, .eps = 1e-3})},
      {"plateau4", scheduler<ReduceLROnPlateau>(Plateau{.mode = PlateauMode::max,
                                                        .patience = 0,
                                                        .threshold = 0.05,
                                                        .threshold_mode = ThresholdMode::abs})},
  };
  return all;
}

// An optimizer for schedulers, with two groups and a momentum or betas.
std::unique_ptr<optim::Optimizer> scheduled(const std::string& name) {
  const Tensor one = zeros({1}, {.requires_grad = true}), two = zeros({1}, {.requires_grad = true});
  if (name == "one_cycle_adam") {
    return std::make_unique<optim::Adam>(std::vector<optim::AdamGroup>{
        {.parameters = {one}, .lr = 0.5}, {.parameters = {two}, .lr = 0.04}});
  }
  return std::make_unique<optim::SGD>(
      std::vector<optim::SGDGroup>{{.parameters = {one}, .lr = 0.5},
                                   {.parameters = {two}, .lr = 0.04}},
      optim::SGDOptions{.momentum = name.starts_with("one_cycle") ? 0.9 : 0});
}

void step(optim::LRScheduler& scheduler, const std::string& name, std::size_t epoch) {
  if (auto* plateau = dynamic_cast<optim::ReduceLROnPlateau*>(&scheduler)) {
    plateau->step(values_of(golden_values().at(name + "/metrics"))[epoch]);
  } else {
    dynamic_cast<optim::SteppedLR&>(scheduler).step();
  }
}

// Learning rates and momenta of both groups, before every step and after the last one.
using Rows = std::vector<std::vector<double>>;
std::vector<double> row_of(const optim::Optimizer& optimizer) {
  std::vector<double> row;
  for (const optim::ParamGroup& group : optimizer.groups()) row.push_back(group.lr());
  for (const optim::ParamGroup& group : optimizer.groups())
    row.push_back(group.get(group.has("betas.first") ? "betas.first" : "momentum"));
  return row;
}

TEST(GoldenOptim, FiftyLearningRates) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "nothing of it is the device's";
  for (const Schedule& schedule : schedules()) {
    const std::string name = schedule.name;
    SCOPED_TRACE(name);
    const auto optimizer = scheduled(name);
    const Scheduler scheduler = schedule.make(*optimizer);
    const std::vector<double> rates = values_of(golden_values().at(name + "/lr")),
                              momenta = values_of(golden_values().at(name + "/momentum"));
    ASSERT_EQ(rates.size(), 102u);
    for (std::size_t epoch = 0; epoch <= 50; ++epoch) {
      const std::vector<double> row = row_of(*optimizer);
      for (std::size_t group = 0; group < 2; ++group) {
        EXPECT_NEAR(row[group], rates[2 * epoch + group], 1e-12) << "epoch " << epoch;
        EXPECT_EQ(scheduler->last_lr()[group], row[group]);
        EXPECT_NEAR(row[2 + group], momenta[2 * epoch + group], 1e-12) << "epoch " << epoch;
      }
      if (epoch < 50) step(*scheduler, name, epoch);
    }
    EXPECT_EQ(scheduler->last_epoch(), 50);
  }
}

// The scheduler may be made before or after the optimizer is loaded.
TEST(GoldenOptim, SchedulersResume) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "nothing of it is the device's";
  for (const Schedule& schedule : schedules()) {
    for (const bool scheduler_first : {true, false}) {
      const std::string name = schedule.name;
      SCOPED_TRACE(name);
      const auto whole = scheduled(name), parts = scheduled(name);
      const Scheduler expected = schedule.make(*whole);
      StateDict optimizer_state, scheduler_state;
      for (std::size_t epoch = 0; epoch < 50; ++epoch) {
        if (epoch == 23) {
          optimizer_state = whole->state_dict();
          scheduler_state = expected->state_dict();
        }
        step(*expected, name, epoch);
      }
      if (!scheduler_first) parts->load_state_dict(optimizer_state);
      const Scheduler resumed = schedule.make(*parts);
      if (scheduler_first) parts->load_state_dict(optimizer_state);
      resumed->load_state_dict(scheduler_state);
      EXPECT_EQ(resumed->last_epoch(), 23);
      for (std::size_t epoch = 23; epoch < 50; ++epoch) step(*resumed, name, epoch);
      EXPECT_EQ(row_of(*parts), row_of(*whole));
      EXPECT_EQ(resumed->last_lr(), expected->last_lr());
    }
  }
}

}  // namespace
}  // namespace volta
