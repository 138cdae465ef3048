// Functions of modules besides the forward pass: deep copies, lists, visits, freezing, summaries.
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/test_device.h"
#include "volta/volta.h"

using namespace volta;

namespace {

struct Tied : nn::Module {
  nn::Embedding token{6, 4};
  nn::Sequential blocks;
  nn::ModuleList<nn::Linear> list;
  nn::Linear head{4, 6, {.bias = false}};
  nn::Buffer count;

  Tied() {
    add("token", token);
    add("blocks", blocks);
    add("list", list);
    add("head", head);
    count = add_buffer("count", zeros({1}));
    blocks.append(nn::Linear(4, 4)).append("act", nn::Tanh());
    list.append(nn::Linear(4, 4)).append(nn::Linear(4, 4));
    head.weight.tie(token.weight);
  }
  Tensor forward(const Tensor& ids) override {
    Tensor x = blocks(token(ids));
    for (nn::Linear& layer : list) x = layer(x);
    if (is_training()) count.set(*count + 1);
    return head(x);
  }
};

Tensor ids() { return tensor({0, 5, 2}, {3}, {.dtype = DType::i64, .device = test_device()}); }

TEST(Clone, HasTheSameValuesAndItsOwnParameters) {
  Tied model;
  model.to(test_device());
  Tied copy = nn::clone(model);
  const std::vector<float> before = model(ids()).to_vector<float>();
  EXPECT_EQ(copy(ids()).to_vector<float>(), before);

  // Training one leaves every kind of member of the other unchanged.
  optim::SGD opt(copy.parameters(), {.lr = 0.5});
  const StateDict old = model.state_dict();
  copy(ids()).square().sum().backward();
  opt.step();
  for (const auto& [name, value] : copy.state_dict()) {
    if (name == "count") continue;
    EXPECT_FALSE(value.eq(old.at(name)).all().item<bool>()) << name;
  }
  EXPECT_EQ(model(ids()).to_vector<float>(), before);
  EXPECT_NE(copy(ids()).to_vector<float>(), before);
  for (const Tensor& p : model.parameters()) EXPECT_FALSE(p.grad().defined());
}

TEST(Clone, KeepsWhatIsTiedAndNamedAndItsMode) {
  Tied model;
  model.to(test_device());
  model(ids());
  model.blocks.eval();
  Tied copy = nn::clone(model);
  EXPECT_EQ(copy.parameters().size(), model.parameters().size());
  EXPECT_EQ(copy.state_dict().size(), model.state_dict().size());
  EXPECT_EQ(copy.device(), test_device());
  EXPECT_FALSE(copy.blocks.is_training());
  EXPECT_TRUE(copy.is_training());
  // Tied parameters stay tied: assigning to the token's also changes the head's.
  copy.load_state_dict({{"token.weight", ones({6, 4})}}, {.strict = false});
  EXPECT_EQ(copy.head.weight->sum().item(), 24);
  EXPECT_NE(model.head.weight->sum().item(), 24);
  // The copy has its own buffers.
  copy(ids());
  EXPECT_EQ(copy.count->item(), 2);
  EXPECT_EQ(model.count->item(), 1);
  // A module appended to the copy's list is not in the original's.
  copy.blocks.append(nn::ReLU());
  EXPECT_EQ(model.blocks.size(), 2u);
  EXPECT_EQ(copy.blocks.size(), 3u);
}

TEST(Clone, OfACloneAndOfFrozenParameters) {
  nn::Linear layer(2, 2, {.device = test_device()});
  layer.requires_grad(false);
  nn::Linear second = nn::clone(nn::clone(layer));
  for (const Tensor& p : second.parameters()) EXPECT_FALSE(p.requires_grad());
  second.requires_grad();
  for (const Tensor& p : second.parameters()) EXPECT_TRUE(p.requires_grad());
  for (const Tensor& p : layer.parameters()) EXPECT_FALSE(p.requires_grad());
  nn::Linear handle = second;  // an ordinary copy refers to the same module
  handle.load_state_dict({{"weight", ones({2, 2})}, {"bias", zeros({2})}});
  EXPECT_EQ(second.weight->sum().item(), 4);
}

TEST(Module, FrozenParametersAreNotTrained) {
  nn::Sequential model({nn::Linear(2, 3), nn::Linear(3, 1)});
  model.to(test_device());
  model[0].requires_grad(false);
  model(ones({1, 2}, {.device = test_device()})).sum().backward();
  const auto parameters = model.named_parameters();
  EXPECT_FALSE(parameters[0].second.grad().defined());
  EXPECT_TRUE(parameters[2].second.grad().defined());
  EXPECT_THROW(model[2], ArgumentError);
}

TEST(Module, AppliesToChildrenFirst) {
  Tied model;
  std::vector<std::string> kinds;
  model.apply([&](nn::Module& m) { kinds.push_back(m.kind()); });
  const std::vector<std::string> expected = {"Embedding",          "Linear", "Tanh",
                                             "Sequential",         "Linear", "Linear",
                                             "ModuleList<Linear>", "Linear", "Tied"};
  EXPECT_EQ(kinds, expected);
  model.apply([](nn::Module& m) {
    if (m.kind() != "Linear") return;
    for (auto& [name, p] : m.named_parameters()) {
      NoGrad no_grad;
      assign(p, full(p.shape(), 0.25f));
    }
  });
  EXPECT_EQ(model.list[1].weight->sum().item(), 4);
  EXPECT_EQ(model.list[1].bias->sum().item(), 1);
}

TEST(Module, ListIsIndexedAndIterated) {
  nn::ModuleList<nn::Linear> list{nn::Linear(2, 3), nn::Linear(3, 4)};
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].weight->shape(), (Shape{4, 3}));
  EXPECT_EQ(list.named_parameters()[2].first, "1.weight");
  try {
    (void)list[2];
    FAIL() << "there is no third module";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "ModuleList: there is no module 2 among 2");
  }
}

// Modules are handles, also those that were moved from: none loses its layers, weights or
// statistics.
TEST(Module, AMovedModuleIsStillTheSame) {
  const auto check = [](auto module, const auto& call, const char* what) {
    module.to(test_device());
    const std::vector<float> before = call(module);
    auto moved = std::move(module);
    EXPECT_EQ(call(module), before) << what;  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(call(moved), before) << what;
    EXPECT_EQ(module.parameters().size(), moved.parameters().size()) << what;
  };
  const Tensor x = (arange(12) / 12).reshape({3, 4}).to(test_device());
  const auto of_x = [&](auto& module) { return module(x).template to_vector<float>(); };
  const auto steps = [&](auto& module) { return module(x).output.template to_vector<float>(); };
  nn::BatchNorm1d norm(4);
  norm.running_mean.set(full({4}, 3.0));
  norm.eval();
  check(norm, of_x, "BatchNorm1d");
  check(nn::Linear(4, 2), of_x, "Linear");
  check(nn::Sequential({nn::Linear(4, 3), nn::ReLU()}), of_x, "Sequential");
  check(nn::LSTM(4, 3, {.bidirectional = true}), steps, "LSTM");
  check(nn::GRU(4, 3), steps, "GRU");
  check(Tied(), [](Tied& module) { return module.eval()(ids()).to_vector<float>(); }, "Tied");
}

TEST(Module, BuffersKeepTheirShapeAndDType) {
  Tied model;
  EXPECT_THROW(model.count.set(ones({2})), ShapeError);
  EXPECT_THROW(model.count.set(full({1}, 3)), DTypeError);  // i64
  EXPECT_EQ(model.count->dtype(), DType::f32);
  nn::Buffer none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE((*none).defined());
  EXPECT_THROW(none.set(ones({1})), ArgumentError);
}

TEST(Summary, ListsLayersShapesParametersAndOperations) {
  nn::Sequential model(
      {{"fc1", nn::Linear(8, 16)}, {"act", nn::ReLU()}, {"fc2", nn::Linear(16, 4)}});
  model.to(test_device());
  reset_counters();
  const nn::Summary summary = model.summary({32, 8});
  ASSERT_EQ(summary.rows.size(), 4u);
  EXPECT_EQ(summary.rows[0].kind, "Sequential");
  EXPECT_EQ(summary.rows[0].outputs, std::vector<Shape>{(Shape{32, 4})});
  EXPECT_EQ(summary.rows[1].name, "fc1");
  EXPECT_EQ(summary.rows[1].parameters, 8 * 16 + 16);
  EXPECT_EQ(summary.rows[1].operations, 32 * 16 * (2 * 8 + 1));
  EXPECT_EQ(summary.rows[2].outputs, std::vector<Shape>{(Shape{32, 16})});
  EXPECT_EQ(summary.rows[2].operations, 32 * 16);
  EXPECT_EQ(summary.rows[3].operations, 32 * 4 * (2 * 16 + 1));
  EXPECT_EQ(summary.operations, 32 * 16 * 17 + 32 * 16 + 32 * 4 * 33);
  EXPECT_EQ(summary.parameters, 8 * 16 + 16 + 16 * 4 + 4);
  EXPECT_EQ(summary.bytes, 4 * summary.parameters);
  EXPECT_EQ(counters().plans_built, 0u);  // nothing was computed
  EXPECT_TRUE(model.is_training());
}

TEST(Summary, PrintsATable) {
  nn::Sequential model({{"fc1", nn::Linear(784, 100)}, {"act", nn::ReLU()}});
  std::ostringstream text;
  text << model.summary({2, 784});
  EXPECT_EQ(text.str(),
            "layer           output    parameters  operations\n"
            "------------------------------------------------\n"
            "Sequential      [2, 100]      78,500     314,000\n"
            "  fc1 (Linear)  [2, 100]      78,500     313,800\n"
            "  act (ReLU)    [2, 100]           -         200\n"
            "------------------------------------------------\n"
            "78,500 parameters, 78,500 of them trained; 0.3 MB with buffers; 314,000 operations\n");
}

TEST(Summary, OfOwnModulesSharedLayersAndFailures) {
  Tied model;
  const nn::Summary summary = model.summary({3}, {.dtype = DType::i64});
  EXPECT_EQ(summary.rows[0].kind, "Tied");
  EXPECT_EQ(summary.parameters, 6 * 4 + 3 * (4 * 4 + 4));  // the head's weight is the token's
  EXPECT_EQ(model.count->item(), 0);                       // as in eval mode
  // The list itself is not called: its operations are those of its children.
  const auto& list = summary.rows[5];
  EXPECT_EQ(list.name, "list");
  EXPECT_TRUE(list.outputs.empty());
  EXPECT_EQ(list.operations, 2 * 3 * 4 * (2 * 4 + 1));

  nn::Sequential wrong({nn::Linear(2, 3), nn::Linear(2, 3)});
  EXPECT_THROW(wrong.summary({1, 2}), ShapeError);
  EXPECT_TRUE(wrong[0].is_training());

  nn::Linear shared(2, 2);
  nn::Sequential twice({shared, shared});
  const nn::Summary both = twice.summary({1, 2});
  EXPECT_EQ(both.rows.size(), 2u);
  EXPECT_EQ(both.parameters, 6);
  EXPECT_EQ(both.rows[1].operations, 2 * 2 * (2 * 2 + 1));
}

}  // namespace
