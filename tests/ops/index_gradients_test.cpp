// Indices out of range in operations whose results nobody holds: what their gradients compute
// reports them nevertheless.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/record/op.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using graph::OpId;

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }
Tensor ints(const std::vector<std::int64_t>& values, const Shape& shape) {
  return from_vector(values, shape, here());
}
Tensor leaf(const Shape& shape) {
  Tensor x = randn(shape, here()).eval();
  x.set_requires_grad();
  return x;
}

std::string told(const Tensor& x) {
  try {
    x.to(DType::f32).to_vector<float>();
    return "nothing";
  } catch (const IndexError& e) {
    return e.what();
  }
}

// An operation with an index of 7 among valid ones, of which only a gradient is held.
struct Case {
  const char* what;
  OpId op;
  std::string name;
  std::string range;
  std::function<Tensor()> gradient;
};

// The gradient of x for a `loss` whose result nobody holds afterwards.
template <class Loss>
Tensor gradient_of(const Tensor& x, const Loss& loss) {
  loss(x).sum().backward();
  return x.grad();
}

std::vector<Case> cases() {
  const std::vector<std::int64_t> wrong{1, 7, 0, 2};
  std::vector<Case> all{
      {"rows", OpId::gather, "embedding", "[0, 3)",
       [=] {
         return gradient_of(leaf({3, 2}),
                            [&](const Tensor& w) { return embedding(w, ints(wrong, {4})); });
       }},
      {"rows, many of them: sorted", OpId::gather, "embedding", "[0, 300)",
       [] {
         std::vector<std::int64_t> ids(600, 5);
         ids[123] = 777777;
         return gradient_of(leaf({300, 4}),
                            [&](const Tensor& w) { return embedding(w, ints(ids, {600})); });
       }},
      {"rows that are added", OpId::scatter_rows, "index_add", "[0, 3)",
       [=] {
         const Tensor source = leaf({4, 2});
         index_add(zeros({3, 2}, here()), 0, ints(wrong, {4}), source).sum().backward();
         return source.grad();
       }},
      {"parts along the first axis", OpId::select_rows, "index_select", "[0, 3)",
       [=] {
         return gradient_of(leaf({3, 2}),
                            [&](const Tensor& x) { return index_select(x, 0, ints(wrong, {4})); });
       }},
      {"parts along another axis", OpId::select_rows, "index_select", "[0, 3)",
       [=] {
         return gradient_of(leaf({2, 3}),
                            [&](const Tensor& x) { return index_select(x, 1, ints(wrong, {4})); });
       }},
      {"elements along an axis", OpId::take_along, "take_along_axis", "[-3, 3)",
       [=] {
         return gradient_of(leaf({3, 2}), [&](const Tensor& x) {
           return take_along_axis(x, ints(wrong, {2, 2}), 0);
         });
       }},
      {"elements of a part", OpId::gather_along, "gather", "[0, 3)",
       [=] {
         return gradient_of(leaf({3, 2}),
                            [&](const Tensor& x) { return gather(x, 0, ints(wrong, {4, 1})); });
       }},
      {"what is added", OpId::add_along, "scatter_add", "[0, 3)",
       [=] {
         const Tensor source = leaf({4, 2});
         scatter_add(zeros({3, 2}, here()), 0, ints(wrong, {4, 1}).expand({4, 2}), source)
             .sum()
             .backward();
         return source.grad();
       }},
      {"what is written over", OpId::put_along, "scatter", "[0, 3)",
       [=] {
         return gradient_of(leaf({3, 2}),
                            [&](const Tensor& x) { return scatter(x, 0, ints(wrong, {4, 1}), 2); });
       }},
      {"what is written", OpId::put_along, "scatter", "[0, 3)",
       [=] {
         const Tensor source = leaf({4, 1});
         scatter(zeros({3, 2}, here()), 0, ints(wrong, {4, 1}), source).sum().backward();
         return source.grad();
       }},
      {"x[i]", OpId::index, "index", "[-3, 3)",
       [=] {
         return gradient_of(leaf({3, 2}), [&](const Tensor& x) { return x[ints(wrong, {4})] * 1; });
       }},
      {"x[i] of a later axis", OpId::index, "index", "[-3, 3)",
       [=] {
         return gradient_of(leaf({2, 3}), [&](const Tensor& x) {
           return x.index({Slice(), ints(wrong, {4})}) * 1;
         });
       }},
      {"x[i] = 2, of x", OpId::index_put, "index", "[-3, 3)",
       [=] {
         return gradient_of(leaf({3, 2}), [&](const Tensor& x) {
           Tensor y = x * 1;
           y[ints(wrong, {4})] = 2;
           return y;
         });
       }},
      {"x[i] = v, of v", OpId::index_put, "index", "[-3, 3)",
       [=] {
         return gradient_of(leaf({4, 2}), [&](const Tensor& v) {
           Tensor y = zeros({3, 2}, here());
           y[ints(wrong, {4})] = v;
           return y;
         });
       }},
      {"a factor", OpId::one_hot, "one_hot", "[0, 3)",
       [=] {
         return gradient_of(leaf({4, 3}), [&](const Tensor& x) {
           return x * one_hot(ints(wrong, {4}), 3).to(DType::f32);
         });
       }},
      {"a label, twice differentiated", OpId::cross_entropy, "cross_entropy", "[0, 3)",
       [=] {
         const Tensor x = leaf({4, 3});
         const Tensor g =
             grad(cross_entropy(x, ints(wrong, {4})), x, {.create_graph = true}).square().sum();
         return grad(g, x);
       }},
      {"a label, of a checkpoint", OpId::cross_entropy, "cross_entropy", "[0, 3)",
       [=] {
         const Tensor labels = ints(wrong, {4});
         return gradient_of(leaf({4, 3}), [&](const Tensor& x) {
           return checkpoint([&](const Tensor& y) { return cross_entropy(y, labels); }, x);
         });
       }},
      {"a label of halves", OpId::cross_entropy, "cross_entropy", "[0, 3)",
       [=] {
         return gradient_of(leaf({4, 3}), [&](const Tensor& x) {
           return cross_entropy(x.to(DType::bf16), ints(wrong, {4}));
         });
       }},
      {"labels of pixels", OpId::cross_entropy, "cross_entropy", "[0, 3)",
       [=] {
         return gradient_of(leaf({2, 3, 2}),
                            [&](const Tensor& x) { return cross_entropy(x, ints(wrong, {2, 2})); });
       }},
      {"the label of one row", OpId::cross_entropy, "cross_entropy", "[0, 3)",
       [=] {
         return gradient_of(leaf({3}),
                            [&](const Tensor& x) { return cross_entropy(x, ints({7}, {})); });
       }},
  };
  struct Options {
    Reduction reduction;
    bool weighted = false;
    double smoothing = 0;
  };
  const Tensor weight = tensor({1, 2, 3}, here());
  for (const Options& with : {Options{Reduction::mean},
                              {Reduction::sum},
                              {Reduction::none},
                              {Reduction::mean, true},
                              {Reduction::sum, true},
                              {Reduction::sum, false, 0.1},
                              {Reduction::none, true, 0.1}}) {
    all.push_back({"a label", OpId::cross_entropy, "cross_entropy", "[0, 3)", [=] {
                     return gradient_of(leaf({4, 3}), [&](const Tensor& x) {
                       return cross_entropy(x, ints(wrong, {4}),
                                            {.reduction = with.reduction,
                                             .weight = with.weighted ? weight : Tensor(),
                                             .label_smoothing = with.smoothing});
                     });
                   }});
    if (with.smoothing > 0) continue;
    all.push_back({"a label", OpId::nll_loss, "nll_loss", "[0, 3)", [=] {
                     return gradient_of(leaf({4, 3}), [&](const Tensor& x) {
                       return nll_loss(x, ints(wrong, {4}),
                                       {.reduction = with.reduction,
                                        .weight = with.weighted ? weight : Tensor()});
                     });
                   }});
  }
  return all;
}

TEST(IndexGradients, TellWhereTheOperationIsDead) {
  for (const Case& one : cases()) {
    const std::string message = told(one.gradient());
    EXPECT_EQ(message.find(one.name + " ("), 0u) << one.what << ": " << message;
    EXPECT_NE(message.find("index_gradients_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("7 is out of range " + one.range), std::string::npos)
        << one.name << ", " << one.what << ": " << message;
  }
}

// Every operation that checks indices must have a case that shows how its gradient reports wrong
// ones.
TEST(IndexGradients, EveryOperationThatChecksHasACase) {
  // Recorded by other operations (their gradients, or numbers and masks checked at the call), with
  // indices that are those of the other operation or computed.
  std::set<OpId> known{OpId::index_sum,     OpId::select_at,    OpId::put_slice,   OpId::resample,
                       OpId::resample_grad, OpId::rows_at_true, OpId::rows_to_true};
  for (const Case& one : cases()) known.insert(one.op);
  for (std::size_t op = 0; op < graph::kOps; ++op) {
    const OpId id = static_cast<OpId>(op);
    EXPECT_EQ(graph::checks_indices(id), known.contains(id)) << graph::op_table[op].name;
  }
}

// ---- A step whose loss nobody holds.

struct Classifier {
  Tensor weight = leaf({4, 3});
  optim::SGD optimizer{{weight}, {.lr = 0.1, .momentum = 0.9}};
  const Tensor x = ones({2, 4}, here());

  Tensor loss(std::int64_t label) const {
    return cross_entropy(x.matmul(weight), ints({label, 0}, {2}));
  }
  void step(std::int64_t label) {
    optimizer.zero_grad();
    loss(label).backward();
    optimizer.step();
  }
};

TEST(IndexGradients, AParameterTellsOnceOfALabelAndGoesOn) {
  Classifier model;
  for (int i = 0; i < 3; ++i) model.step(1);
  EXPECT_EQ(told(model.weight), "nothing");
  model.step(99);
  const std::string message = told(model.weight);
  EXPECT_NE(message.find("cross_entropy ("), std::string::npos) << message;
  EXPECT_NE(message.find("index 99 is out of range [0, 3)"), std::string::npos) << message;
  EXPECT_EQ(told(model.weight), "nothing");
  model.step(1);
  EXPECT_EQ(told(model.weight), "nothing");
  EXPECT_GT(model.loss(1).item(), 0);
}

TEST(IndexGradients, LaterStepsKeepALabelFromBeingForgotten) {
  Classifier model;
  model.step(99);
  for (int i = 0; i < 3; ++i) model.step(1);
  EXPECT_THROW(model.loss(1).item(), IndexError);
  EXPECT_GT(model.loss(1).item(), 0);
}

TEST(IndexGradients, SynchronizeTellsOfALabel) {
  Classifier model;
  model.step(1);
  EXPECT_NO_THROW(synchronize(test_device()));
  model.step(99);
  EXPECT_THROW(synchronize(test_device()), IndexError);
  EXPECT_NO_THROW(synchronize(test_device()));
  EXPECT_EQ(told(model.weight), "nothing");
}

TEST(IndexGradients, ALabelThatIsIgnoredMayBeAnyNumber) {
  const Tensor weight = tensor({1, 2, 3}, here());
  for (const std::int64_t ignored : {-100, 255, 1}) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const Tensor x = leaf({3, 3}), labels = ints({0, ignored, 2}, {3});
      cross_entropy(x, labels, {.reduction = reduction, .weight = weight, .ignore_index = ignored})
          .sum()
          .backward();
      nll_loss(x, labels, {.reduction = reduction, .ignore_index = ignored}).sum().backward();
      ASSERT_EQ(told(x.grad()), "nothing");
      const std::vector<float> g = x.grad().to_vector<float>();
      for (int row = 0; row < 3; ++row) {
        for (int column = 0; column < 3; ++column) {
          EXPECT_EQ(g[3 * row + column] == 0, row == 1) << row << ", " << column;
        }
      }
    }
  }
}

// An ignored row has no gradient even beside a weight that is not finite.
TEST(IndexGradients, AnIgnoredRowReadsNoWeight) {
  const Tensor x = leaf({2, 2});
  cross_entropy(x, ints({1, -100}, {2}),
                {.reduction = Reduction::sum, .weight = tensor({INFINITY, 1}, here())})
      .backward();
  const std::vector<float> g = x.grad().to_vector<float>();
  EXPECT_LT(g[1], 0);
  EXPECT_EQ(g[2], 0);
  EXPECT_EQ(g[3], 0);
}

// The loss is read before its gradient is computed; the gradient still depends on it.
TEST(IndexGradients, ALabelIsRememberedFromALossThatWasComputedBefore) {
  const Tensor x = leaf({2, 3});
  {
    const Tensor loss = cross_entropy(x, ints({7, 0}, {2}));
    EXPECT_THROW(loss.item(), IndexError);
    loss.backward();
  }
  EXPECT_NE(told(x.grad()).find("cross_entropy ("), std::string::npos) << told(x.grad());
}

TEST(IndexGradients, ALossThatNobodyKeepsTakesNoMoreLaunches) {
  const auto launches = [](Classifier& model, bool keep) {
    const auto step = [&] {
      model.optimizer.zero_grad();
      Tensor loss = model.loss(1);
      loss.backward();
      if (!keep) loss = Tensor();
      model.optimizer.step();
      return loss;
    };
    for (int i = 0; i < 3; ++i) step();
    synchronize(test_device());
    const Counters before = counters();
    const Tensor loss = step();
    synchronize(test_device());
    const Counters after = counters();
    return after.launches - before.launches + after.library_calls - before.library_calls;
  };
  Classifier one, other;
  const auto kept = launches(one, true), dropped = launches(other, false);
  EXPECT_GT(dropped, 0u);
  EXPECT_LE(dropped, kept);
}

// Probabilities are not indices, and later operations are reported under their own names.
TEST(IndexGradients, ALossOfProbabilitiesMovesNoNames) {
  const Tensor loss = cross_entropy(randn({2, 3}, here()), ones({2, 3}, here()) / 3);
  const Tensor rows = embedding(randn({3, 1}, here()), ints({7, 0}, {2}));
  const std::string message = told(rows.sum() + loss);
  EXPECT_EQ(message.find("embedding ("), 0u) << message;
}

}  // namespace
}  // namespace volta
