// First steps that fail, of models that nothing has evaluated yet: the initial values are pending
// in the failing batch. Every backend call of such a step fails in turn, and every request for
// memory is refused. Afterwards the model is as it was constructed, and learns the same as an
// untouched twin, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/pool_faults.h"
#include "runtime/fault_training.h"
#include "runtime/faulty_process.h"
#include "runtime/fresh_training.h"
#include "runtime/scarcity.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using testing_faults::faults;
using testing_faults::forget_plans;
using testing_faults::Fresh;
using testing_faults::fresh_models;
using testing_faults::noise_of;
using testing_faults::refuse;
using testing_faults::requests;
using testing_faults::Values;
using testing_faults::with_faults;

constexpr std::int64_t kRows = 6, kFewerRows = 4, kLaterSteps = 2;
using Model = std::function<Fresh()>;
using Act = std::function<void()>;

struct Learned {
  std::vector<float> losses;
  Values values;
  friend bool operator==(const Learned&, const Learned&) = default;
};

// The first step and some more.
Learned learn(Fresh& training, std::int64_t rows) {
  Learned learned;
  for (std::int64_t step = 0; step <= kLaterSteps; ++step)
    learned.losses.push_back(training.step(step == 0 ? rows : kRows).item<float>());
  learned.values = training.values();
  return learned;
}

void expect_equal(const Values& found, const Values& wanted) {
  for (const auto& [name, values] : wanted) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name), values) << name;
  }
  EXPECT_EQ(found.size(), wanted.size());
}

// The results of twins without a failure: as constructed, and with their initial values evaluated
// first, as after a step that failed on submission. A plan that also draws the weights of an LSTM
// groups, and rounds, differently.
struct Twins {
  explicit Twins(const Model& make) : at_first(make().values()) {
    for (const bool evaluated : {false, true}) {
      with_all.push_back(of(make, kRows, evaluated));
      with_fewer.push_back(of(make, kFewerRows, evaluated));
    }
  }
  static Learned of(const Model& make, std::int64_t rows, bool evaluated) {
    Fresh twin = make();
    if (evaluated) (void)twin.values();
    return learn(twin, rows);
  }
  Values at_first;
  std::vector<Learned> with_all, with_fewer;
};

enum class After { TheSame, FewerRows, ALook };

// Runs a first step in which something fails, then trains the model. Returns whether the step
// failed.
bool fails_and_learns(const Model& make, const Twins& twins, After after, const Act& arm,
                      const Act& disarm) {
  Fresh training = make();
  arm();
  try {
    Tensor loss = training.step(kRows);
    disarm();
    return false;
  } catch (const Error& error) {
    disarm();
    // Called inside a layer: earlier layers were called and have counted the batch.
    if (std::string(error.what()).find("supports failed") != std::string::npos) return false;
  }
  if (after == After::ALook) expect_equal(training.values(), twins.at_first);
  const std::int64_t rows = after == After::FewerRows ? kFewerRows : kRows;
  const std::vector<Learned>& wanted = rows == kRows ? twins.with_all : twins.with_fewer;
  const Learned learned = learn(training, rows);
  if (learned == wanted[0] || learned == wanted[1]) return true;
  EXPECT_EQ(learned.losses, wanted[1].losses);
  expect_equal(learned.values, wanted[1].values);
  return true;
}

// The full tests use all models; otherwise there are a few, and on OpenCL a single one, because its
// kernels differ from those of other tests.
bool is_wanted(const std::string& model) { return thorough() || model == "Linear, SGD"; }
long stride() { return std::getenv("VOLTA_TEST_FULL") != nullptr ? 1 : 5; }

// Lets one call or request of a first step after the other fail, for every model.
void sweep(const Act& count, const std::function<long()>& counted,
           const std::function<void(long)>& arm, const Act& disarm) {
  long failures = 0, all = 0;
  for (const auto& [name, make] : fresh_models()) {
    if (!is_wanted(name)) continue;
    const Twins twins(make);
    forget_plans();
    long calls = 0;
    {
      Fresh training = make();
      count();
      training.step(kRows);
      calls = counted();
    }
    ASSERT_GT(calls, 0);
    all += calls;
    long turn = 0;
    for (long call = 1; call <= calls; call += stride(), ++turn) {
      SCOPED_TRACE(name + ", call " + std::to_string(call) + " of " + std::to_string(calls));
      forget_plans();
      const After after = static_cast<After>(turn % 3);
      failures += fails_and_learns(make, twins, after, [&] { arm(call); }, disarm) ? 1 : 0;
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(failures, 0);
  std::printf("%ld of %ld calls failed\n", failures, all);
}

TEST(FreshSteps, EveryCallFailsInTurn) {
  with_faults([] {
    sweep([] { faults().count(); }, [] { return faults().calls; },
          [](long call) { faults().arm(call); }, [] { faults().count(); });
  });
}

// Requests are refused for as long as the program asks.
TEST(FreshSteps, EveryRequestForMemoryIsRefusedInTurn) {
  with_faults([] {
    refuse_allocations(refuse);
    sweep([] { requests() = {}; },
          [] {
            const long made = requests().made;
            requests() = {};
            return made;
          },
          [](long request) { requests() = {0, request, 1'000'000}; }, [] { requests() = {}; });
    refuse_allocations(nullptr);
  });
}

// ---- A memory limit.

// The activations take 16 KiB per row, and several of them are saved.
struct Wide : nn::Module {
  nn::Linear in{1, 4096, {.device = test_device()}}, out{4096, 1, {.device = test_device()}};
  Wide() {
    add("in", in);
    add("out", out);
  }
};
Tensor wide_loss(Wide& net, std::int64_t rows) {
  const Tensor x = noise_of({rows, 1}, 5);
  return mse_loss(net.out(tanh(net.in(x))), x * x);
}
Fresh wide_model() {
  return testing_faults::fresh<Wide>(
      [](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
        return std::make_unique<optim::SGD>(std::move(p),
                                            optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
      },
      wide_loss);
}

TEST(FreshSteps, ABatchThatDoesNotFitIsHalvedUntilItDoes) {
  std::int64_t rows = 8192;
  Learned found;
  {
    Fresh training = wide_model();
    const Scarcity scarcity(Scarcity::Pending::Stays);
    Tensor loss;
    for (;; rows /= 2) {
      ASSERT_GT(rows, 0) << "nothing fits";
      try {
        loss = training.step(rows);
        break;
      } catch (const OutOfMemory&) {
      }
    }
    EXPECT_LT(rows, 8192);
    found = {{loss.item<float>()}, training.values()};
  }
  Fresh twin = wide_model();
  const float loss = twin.step(rows).item<float>();
  EXPECT_EQ(found.losses[0], loss);
  expect_equal(found.values, twin.values());
}

// A step that does not fit, and the values of the model after it.
Values after_a_failure(Fresh& training) {
  const Scarcity scarcity(Scarcity::Pending::Stays);
  EXPECT_THROW(training.step(8192), OutOfMemory);
  return training.values();
}

TEST(FreshSteps, WhatWasSetBeforeTheStepStays) {
  const auto set = [](Fresh& training) {
    auto& net = static_cast<Wide&>(*training.model);
    nn::init::normal_(*net.in.weight, 0, 0.5, Generator(3));
    nn::init::constant_(*net.in.bias, 0.25);
    const NoGrad no_grad;
    Tensor weight = *net.out.weight;
    weight *= 0.5;
    weight += 0.125;
    Tensor bias = *net.out.bias;
    bias.copy_(noise_of({1}, 9));
  };
  Fresh training = wide_model(), twin = wide_model();
  set(training);
  set(twin);
  expect_equal(after_a_failure(training), twin.values());
}

// An earlier batch has computed the values.
TEST(FreshSteps, WhatWasSetBetweenStepsStays) {
  const auto set = [](Fresh& training) {
    training.step(16);
    const NoGrad no_grad;
    for (Tensor& parameter : training.model->parameters())
      parameter.copy_(parameter.clamp(-0.25, 0.25));
  };
  // One after the other, so that both use the same plans: a plan that also draws the weights of
  // another model may round differently.
  Fresh training = wide_model();
  set(training);
  Fresh twin = wide_model();
  set(twin);
  expect_equal(after_a_failure(training), twin.values());
}

// Layers that are constructed between operations of the first step have initial values too.
TEST(FreshSteps, LayersMadeDuringTheStepGoBack) {
  const auto train = [](std::int64_t rows, bool with_step) {
    manual_seed(5);
    const nn::LinearOptions here = {.device = test_device()};
    nn::Linear in(4, 512, here);
    const Tensor hidden = tanh(in(noise_of({rows, 4}, 5)));
    nn::Linear out(512, 1, here);
    nn::Linear last(1, 1, here);
    nn::init::constant_(*last.weight, 0.75);  // values set in between stay, too
    std::vector<Tensor> parameters = in.parameters();
    for (const auto& layer : {out, last})
      for (const Tensor& parameter : layer.parameters()) parameters.push_back(parameter);
    optim::Adam optimizer(parameters, {.lr = 0.1});
    last(out(hidden)).square().sum().backward();
    if (with_step) {
      const Scarcity scarcity(Scarcity::Pending::Stays);
      EXPECT_THROW(optimizer.step(), OutOfMemory);
    }
    std::vector<std::vector<float>> values;
    for (const Tensor& parameter : parameters) values.push_back(parameter.to_vector<float>());
    return values;
  };
  EXPECT_EQ(train(65536, true), train(16, false));
}

// The gradients of a failed step are not added to those of the next one, wherever the program calls
// zero_grad().
TEST(FreshSteps, TheNextStepBeginsWithGradientsOfItsOwn) {
  const auto step = [](Fresh& training, std::int64_t rows) {
    training.loss_of(rows).backward();
    training.optimizer->step();
    training.optimizer->zero_grad();
  };
  Fresh training = wide_model();
  {
    const Scarcity scarcity(Scarcity::Pending::Stays);
    EXPECT_THROW(step(training, 8192), OutOfMemory);
    EXPECT_THROW(step(training, 8192), OutOfMemory);
    EXPECT_NO_THROW(step(training, 16));
  }
  Fresh twin = wide_model();
  for (const Tensor& parameter : twin.model->parameters()) parameter.eval();
  step(twin, 16);
  expect_equal(training.values(), twin.values());
}

// If memory does not suffice for everything but a value can be computed alone, no failure is
// reported and no gradient is dropped.
TEST(FreshSteps, GradientsOfAValueThatWasComputedAloneStay) {
  const auto train = [](bool looks) {
    Fresh training = wide_model();
    for (const Tensor& parameter : training.model->parameters()) parameter.eval();
    {
      const Scarcity scarcity;
      const Tensor loss = training.loss_of(8192);
      loss.backward();
      const Tensor small = training.model->parameters()[0].sum();
      if (looks) small.item();  // there is no room to compute it with everything else
      EXPECT_TRUE(loss.is_pending());
    }
    training.loss_of(16).backward();
    training.optimizer->step();
    return training.values();
  };
  // The gradients are sums of other plans and may be rounded differently.
  const Values found = train(true), expected = train(false);
  for (const auto& [name, values] : expected) {
    ASSERT_EQ(found.at(name).size(), values.size()) << name;
    for (std::size_t k = 0; k < values.size(); ++k)
      EXPECT_NEAR(found.at(name)[k], values[k], 1e-4 * (1 + std::abs(values[k]))) << name << k;
  }
}

// Reading every parameter of a model whose forward pass did not fit tries the forward pass at most
// once more.
TEST(FreshSteps, ParametersAreLookedAtWithoutTryingTheWholeAgain) {
  const auto allocations = [](int layers) {
    nn::Sequential model;
    for (int i = 0; i < layers; ++i) model.append(nn::Linear(64, 64, {.device = test_device()}));
    const Scarcity scarcity(Scarcity::Pending::Stays);
    const Tensor loss = model(noise_of({65536, 64}, 5)).square().sum();
    EXPECT_THROW(loss.item(), OutOfMemory);
    const std::uint64_t before = counters().allocations;
    for (const Tensor& parameter : model.parameters()) parameter.eval();
    return counters().allocations - before;
  };
  EXPECT_LE(allocations(8), 4u);
}

TEST(FreshSteps, StatisticsOfALayerWithoutParametersGoBack) {
  const nn::BatchNormOptions plain = {.affine = false, .device = test_device()};
  nn::BatchNorm1d norm(1, plain), twin(1, plain);
  nn::Linear wide(1, 4096, {.device = test_device()});
  optim::SGD optimizer(wide.parameters(), {.lr = 0.1});
  const auto step = [&](std::int64_t rows) {
    optimizer.zero_grad();
    tanh(wide(norm(noise_of({rows, 1}, 5)))).square().sum().backward();
    optimizer.step();
  };
  {
    const Scarcity scarcity(Scarcity::Pending::Stays);
    EXPECT_THROW(step(8192), OutOfMemory);
  }
  for (const auto& [name, tensor] : twin.state_dict())
    EXPECT_EQ(testing_faults::values_of(*norm.state_dict().find(name)),
              testing_faults::values_of(tensor))
        << name;
}

// Values that a step itself created have no former value: they stay pending and can be read.
TEST(FreshSteps, ResultsOfTheStepAreComputedAloneAfterIt) {
  Fresh training = wide_model();
  auto& net = static_cast<Wide&>(*training.model);
  Tensor sum;
  std::vector<float> expected;
  {
    const Scarcity scarcity(Scarcity::Pending::Stays);
    const Tensor loss = wide_loss(net, 8192);
    {
      const NoGrad no_grad;
      sum = net.in.weight->detach() * 2;
      sum += 1;
    }
    EXPECT_THROW(loss.item(), OutOfMemory);
    sum.to_vector<float>();
  }
  Fresh twin = wide_model();
  const Tensor weight = static_cast<Wide&>(*twin.model).in.weight->detach();
  EXPECT_EQ(sum.to_vector<float>(), (weight * 2 + 1).to_vector<float>());
}

TEST(FreshSteps, AnUpdateByHandIsUndone) {
  Fresh training = wide_model();
  const Values at_first = wide_model().values();
  {
    const Scarcity scarcity(Scarcity::Pending::Stays);
    wide_loss(static_cast<Wide&>(*training.model), 8192).backward();
    {
      const NoGrad no_grad;
      for (Tensor& parameter : training.model->parameters()) parameter -= parameter.grad() * 0.1;
    }
    EXPECT_THROW(submit(test_device()), OutOfMemory);
    expect_equal(training.values(), at_first);
  }
}

}  // namespace
}  // namespace volta
