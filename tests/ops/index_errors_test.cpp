// Indices out of range: who gets the error, how often, and what continues unaffected.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }

Tensor table() { return tensor({10, 20, 30}, {3, 1}, here()); }
Tensor ids(std::int64_t first) { return from_vector<std::int64_t>({first, 0}, here()); }
// Row 7, which does not exist, and row 0.
Tensor bad_rows() { return embedding(table(), ids(7)); }

std::string told(const Tensor& x) {
  try {
    x.to_vector<float>();
    return "nothing";
  } catch (const IndexError& e) {
    return e.what();
  }
}

#define EXPECT_TELLS(x)                                                 \
  EXPECT_NE(told(x).find("embedding ("), std::string::npos) << told(x); \
  EXPECT_NE(told(x).find("index 7 is out of range [0, 3)"), std::string::npos) << told(x)

TEST(IndexErrors, OnlyReadersOfTheWrongValueAreToldAndEveryTime) {
  const Tensor bad = bad_rows();
  const Tensor pending = tensor({1, 2, 3}, here()) * 2;  // in the same batch
  submit(test_device());
  const Tensor later = tensor({1, 2, 3}, here()) * 3;
  EXPECT_EQ(pending.to_vector<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(later.to_vector<float>(), (std::vector<float>{3, 6, 9}));
  std::thread other([] {
    const Tensor own = tensor({1, 2}, here()) + 1;
    EXPECT_EQ(own.to_vector<float>(), (std::vector<float>{2, 3}));
  });
  other.join();
  for (int look = 0; look < 3; ++look) {
    EXPECT_TELLS(bad);
    std::ostringstream text;
    EXPECT_THROW(text << bad, IndexError);
  }
}

// Threads of a kernel without an element have sums of 0, which is not a wrong index.
TEST(IndexErrors, NoneWhereIndicesAreSumsOfRows) {
  std::vector<float> rows_of_table(64);
  std::iota(rows_of_table.begin(), rows_of_table.end(), 0.0f);
  const Tensor weight = from_vector<float>(rows_of_table, {64, 1}, here());
  for (const std::int64_t rows : {1, 2, 3, 5}) {
    const std::size_t count = static_cast<std::size_t>(rows);
    const Tensor steps =
        from_vector<std::int64_t>(std::vector<std::int64_t>(count * 64, 1), {rows, 64}, here());
    const Tensor running = embedding(weight, steps.cumsum(1) - 1);
    EXPECT_EQ(told(running), "nothing") << rows;
    EXPECT_EQ(running.to_vector<float>().back(), 63);
    const Tensor last = embedding(weight, steps.sum(1) - 1);
    EXPECT_EQ(told(last), "nothing") << rows;
    EXPECT_EQ(last.to_vector<float>(), std::vector<float>(count, 63));
  }
}

TEST(IndexErrors, NoneForMasksOfAnyLength) {
  const std::vector<std::int64_t> counts =
      thorough() ? std::vector<std::int64_t>{32, 64, 65, 100, 300} : std::vector<std::int64_t>{65};
  for (const std::int64_t count : counts) {
    std::vector<std::uint8_t> chosen(static_cast<std::size_t>(count));
    std::vector<float> values, written(chosen.size(), 0), slopes(chosen.size(), 0);
    for (std::size_t i = 0; i < chosen.size(); i += 3) {
      chosen[i] = 1;
      values.push_back(static_cast<float>(values.size() + 1));
      written[i] = values.back();
      slopes[i] = 1;
    }
    const Tensor mask =
        from_vector<std::uint8_t>(chosen, {.dtype = DType::boolean, .device = test_device()});
    Tensor x = from_vector<float>(std::vector<float>(chosen.size(), 0), here());
    x[mask] = from_vector<float>(values, here());
    EXPECT_EQ(told(x), "nothing") << count;
    EXPECT_EQ(x.to_vector<float>(), written) << count;
    const Tensor y = from_vector<float>(written, here(true));
    const Tensor selected = masked_select(y, mask);
    EXPECT_EQ(told(selected), "nothing") << count;
    EXPECT_EQ(selected.to_vector<float>(), values) << count;
    const Tensor gradient = grad(selected.sum(), y);
    EXPECT_EQ(told(gradient), "nothing") << count;
    EXPECT_EQ(gradient.to_vector<float>(), slopes) << count;
  }
}

TEST(IndexErrors, TheCpuKnowsAtEval) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "other devices are not waited for";
  const Tensor bad = bad_rows();
  EXPECT_THROW(bad.eval(), IndexError);
  EXPECT_THROW(bad.eval(), IndexError);
}

TEST(IndexErrors, WhatIsComputedFromTheWrongValueTellsToo) {
  const Tensor bad = bad_rows();
  submit(test_device());
  const Tensor before_a_look = bad * 2;
  submit(test_device());
  EXPECT_TELLS(bad);
  EXPECT_TELLS(before_a_look);
  const Tensor good = embedding(table(), ids(1));
  const Tensor after_a_look = bad.sum() + before_a_look.sum(), unrelated = good + 1;
  EXPECT_TELLS(after_a_look);
  EXPECT_EQ(unrelated.to_vector<float>(), (std::vector<float>{21, 11}));
  EXPECT_TELLS(bad.reshape({1, 2}));
}

TEST(IndexErrors, TwoPlansThatFailBothTell) {
  const Tensor one = bad_rows();
  submit(test_device());
  const Tensor two = bad_rows().sum();
  submit(test_device());
  EXPECT_TELLS(two);
  EXPECT_TELLS(one);
}

TEST(IndexErrors, AHandleWithAnotherValueIsGoodAgain) {
  Tensor x = bad_rows();
  EXPECT_TELLS(x);
  x.copy_(tensor({1, 2}, {2, 1}, here()));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(IndexErrors, AVariableThatIsComputedWithKeepsTelling) {
  Tensor x = tensor({1, 2}, {2, 1}, here());
  x += bad_rows();
  for (int look = 0; look < 2; ++look) {
    EXPECT_TELLS(x);
  }
  Tensor y = tensor({1, 2, 3}, here());
  y[ids(7)] = 1;
  for (int look = 0; look < 2; ++look) {
    EXPECT_NE(told(y).find("index 7 is out of range [-3, 3)"), std::string::npos) << told(y);
  }
}

TEST(IndexErrors, GoodRunsOfTheSamePlanBeforeAndAfterAreGood) {
  const auto rows = [](std::int64_t first) { return embedding(table(), ids(first)).sum(); };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(rows(1).item(), 30);
  const Tensor before = rows(2);
  EXPECT_EQ(before.item(), 40);
  const Tensor bad = rows(7);
  EXPECT_TELLS(bad);
  const Tensor after = rows(1);
  EXPECT_EQ(before.item(), 40);
  EXPECT_EQ(after.item(), 30);
  EXPECT_TELLS(bad);
}

TEST(IndexErrors, SynchronizeTellsOnce) {
  const Tensor bad = bad_rows();
  EXPECT_THROW(synchronize(test_device()), IndexError);
  EXPECT_NO_THROW(synchronize(test_device()));
  EXPECT_TELLS(bad);
}

// Runs one step of a classifier and returns the loss.
Tensor train(const Tensor& weight, optim::SGD& optimizer, std::int64_t label) {
  optimizer.zero_grad();
  const Tensor loss = cross_entropy(ones({2, 4}, here()).matmul(weight),
                                    from_vector<std::int64_t>({label, 0}, here()));
  loss.backward();
  optimizer.step();
  return loss;
}

TEST(IndexErrors, ParametersGoOnAfterABadBatch) {
  Tensor weight = randn({4, 3}, here()).eval();
  weight.set_requires_grad();
  optim::SGD optimizer({weight}, {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 4; ++step) EXPECT_GT(train(weight, optimizer, 1).item(), 0);
  const Tensor bad = train(weight, optimizer, 3);
  const Tensor gradient = weight.grad();
  EXPECT_THROW(bad.item(), IndexError);
  EXPECT_THROW(gradient.to_vector<float>(), IndexError);
  EXPECT_EQ(weight.to_vector<float>().size(), 12u);
  for (int step = 0; step < 4; ++step) EXPECT_GT(train(weight, optimizer, 1).item(), 0);
  EXPECT_EQ(weight.to_vector<float>().size(), 12u);
  EXPECT_THROW(bad.item(), IndexError);
}

TEST(IndexErrors, ABadBatchIsToldEvenIfNobodyLooksAtItsLoss) {
  Tensor weight = randn({4, 3}, here()).eval();
  weight.set_requires_grad();
  optim::SGD optimizer({weight}, {.lr = 0.1});
  train(weight, optimizer, 3);
  train(weight, optimizer, 1);
  EXPECT_THROW(weight.to_vector<float>(), IndexError);
  EXPECT_EQ(weight.to_vector<float>().size(), 12u);
}

// A model that nothing has evaluated before its first batch, which is a bad one.
struct FirstBatch {
  explicit FirstBatch(double momentum = 0.9, double dampening = 0)
      : layer(4, 3, {.device = test_device()}),
        optimizer(layer.parameters(), {.lr = 0.1, .momentum = momentum, .dampening = dampening}) {}
  Tensor step(std::int64_t label) {
    optimizer.zero_grad();
    Tensor scores = layer(rows);
    if (thorough()) scores = norm(scores);
    Tensor loss = cross_entropy(scores, from_vector<std::int64_t>({label, 0}, here()));
    loss.backward();
    optimizer.step();
    return loss;
  }
  void expect_readable() const {
    for (const StateDict& state : {layer.state_dict(), norm.state_dict(), optimizer.state_dict()}) {
      for (const auto& [name, tensor] : state)
        EXPECT_NO_THROW(tensor.to(DType::f32).to_vector<float>()) << name;
    }
  }
  Tensor rows = tensor({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}, here());
  nn::Linear layer;
  nn::BatchNorm1d norm{3, {.device = test_device()}};
  optim::SGD optimizer;
};

TEST(IndexErrors, ABadFirstBatchIsToldOnceAndTrainingGoesOn) {
  for (const double dampening : {0.0, 0.5}) {
    if (dampening != 0 && !thorough()) continue;
    FirstBatch training(0.9, dampening);
    const Tensor bad = training.step(3);
    EXPECT_THROW(bad.item(), IndexError);
    training.expect_readable();
    EXPECT_GT(training.step(1).item(), 0);
    training.expect_readable();
    EXPECT_THROW(bad.item(), IndexError);
  }
}

TEST(IndexErrors, ABadFirstBatchThatNobodyLooksAtIsToldAtTheNextLook) {
  FirstBatch training;
  training.step(3);
  EXPECT_THROW(training.step(1).item(), IndexError);
  EXPECT_GT(training.step(1).item(), 0);
  training.expect_readable();
}

TEST(IndexErrors, AValueAssignedFromAWrongOneKeepsTellingInAFirstBatchToo) {
  Tensor x = rand({2, 1}, here());
  const NoGrad no_grad;
  x.copy_(bad_rows());
  for (int look = 0; look < 2; ++look) {
    EXPECT_TELLS(x);
  }
}

// A program that trains and never reads a value gets a warning in the log, at the latest after the
// next step that the device executes.
TEST(IndexErrors, ABadBatchIsLoggedIfNobodyLooks) {
  for (const bool first : {true, false}) {
    FirstBatch training;
    if (!first) {
      EXPECT_GT(training.step(1).item(), 0);
    }
    std::vector<std::string> told;
    set_log_handler([&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) told.emplace_back(text);
    });
    training.step(3);
    (void)training.step(1);
    for (int step = 0; step < 1000 && told.empty() && !test_device().is_cpu(); ++step)
      training.step(1);  // other devices are not waited for
    training.step(1);
    set_log_handler({});
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].find("cross_entropy ("), 0u) << told[0];
    EXPECT_NE(told[0].find("index 3 is out of range [0, 3); the step went on"), std::string::npos)
        << told[0];
    EXPECT_THROW(training.layer.weight->to_vector<float>(), IndexError);
    training.expect_readable();
  }
}

TEST(IndexErrors, NothingIsLoggedOfWhatSomebodyWasTold) {
  FirstBatch training;
  std::vector<std::string> told;
  set_log_handler([&](LogLevel, std::string_view text) { told.emplace_back(text); });
  EXPECT_THROW(training.step(3).item(), IndexError);
  EXPECT_GT(training.step(1).item(), 0);
  set_log_handler({});
  EXPECT_TRUE(told.empty()) << told[0];
}

}  // namespace
}  // namespace volta
