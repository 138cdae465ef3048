// Modules: the tree and its names, sharing, tying, modes, moving, and the results of each layer.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "support/test_device.h"
#include "volta/volta.h"

using namespace volta;

namespace {

struct Block : nn::Module {
  nn::Linear fc{3, 3};
  nn::Dropout drop{0.5};
  nn::Buffer count;

  Block() {
    add("fc", fc);
    add("drop", drop);
    count = add_buffer("count", zeros({}, {.dtype = DType::i64}));
  }
  Tensor forward(const Tensor& x) override { return drop(fc(x)) + x; }
};

struct Net : nn::Module {
  nn::Embedding token{5, 3};
  nn::Sequential blocks;
  nn::Linear head{3, 5, {.bias = false}};
  nn::Parameter scale;

  Net() {
    add("token", token);
    add("blocks", blocks);
    add("head", head);
    scale = add_parameter("scale", ones({1}));
    blocks.append(Block()).append(Block());
  }
  Tensor forward(const Tensor& ids) override { return head(blocks(token(ids)) * *scale); }

  using nn::Module::add;
  using nn::Module::add_parameter;
  void use_head(const nn::Linear& other) { replace("head", head, other); }
};

struct OneLayer : nn::Sequential {
  OneLayer() { append(nn::Linear(2, 2)); }
};

std::vector<std::string> names(const std::vector<std::pair<std::string, Tensor>>& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

std::vector<std::string> names(const StateDict& state) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : state) result.push_back(name);
  return result;
}

void fill(Tensor parameter, double value) {
  NoGrad no_grad;
  parameter.fill_(value);
}

// Returns the message of the ArgumentError, or other error E, that fn throws.
template <class E = ArgumentError, class F>
std::string message_of(F&& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

using Names = std::vector<std::string>;

}  // namespace

TEST(Module, ListsItsOwnThenItsChildrenInOrder) {
  Net net;
  EXPECT_EQ(names(net.named_parameters()),
            (Names{"scale", "token.weight", "blocks.0.fc.weight", "blocks.0.fc.bias",
                   "blocks.1.fc.weight", "blocks.1.fc.bias", "head.weight"}));
  EXPECT_EQ(names(net.named_buffers()), (Names{"blocks.0.count", "blocks.1.count"}));
  Names modules;
  for (const auto& [name, module] : net.named_modules()) modules.push_back(name);
  EXPECT_EQ(modules, (Names{"", "token", "blocks", "blocks.0", "blocks.0.fc", "blocks.0.drop",
                            "blocks.1", "blocks.1.fc", "blocks.1.drop", "head"}));
  EXPECT_EQ(net.parameters().size(), 7u);
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.requires_grad() && p.is_leaf());
  for (const auto& [name, buffer] : net.named_buffers()) EXPECT_FALSE(buffer.requires_grad());
}

TEST(Module, IsASharedHandle) {
  Net net;
  Net copy = net;
  copy.blocks.append(nn::ReLU());
  EXPECT_EQ(net.blocks.size(), 3u);
  copy.eval();
  EXPECT_FALSE(net.is_training());
  fill(copy.head.weight, 2);
  EXPECT_EQ(net.head.weight->to_vector<float>(), std::vector<float>(15, 2.0f));
  static_assert(!std::is_copy_assignable_v<nn::Linear> && !std::is_move_assignable_v<nn::Linear>);
  static_assert(!std::is_copy_assignable_v<Net>);
}

TEST(Module, ReplaceKeepsTheRegistration) {
  Net net;
  net.use_head(nn::Linear(3, 7));
  EXPECT_EQ(net.head.weight->shape(), (Shape{7, 3}));
  EXPECT_EQ(net.state_dict().at("head.bias").shape(), (Shape{7}));
}

TEST(Module, RefusesBadNamesAndCycles) {
  Net net;
  EXPECT_EQ(message_of([&] { net.add("head", nn::ReLU()); }), "add: there is already a 'head'");
  EXPECT_EQ(message_of([&] { net.add("a.b", nn::ReLU()); }),
            "add: 'a.b' is no name: it must not be empty or contain a dot");
  EXPECT_EQ(message_of([&] { net.add("", nn::ReLU()); }),
            "add: '' is no name: it must not be empty or contain a dot");
  EXPECT_EQ(message_of([&] { net.add("self", net); }),
            "add: 'self' contains the module it is added to");
  EXPECT_EQ(message_of([&] { net.add_parameter("p", Tensor()); }),
            "add_parameter: tensor 'p' is undefined");
  nn::Module plain;
  EXPECT_EQ(
      message_of([&] { plain(ones({1})); }),
      "Module: it does not define forward(const Tensor&); what takes other arguments is called by "
      "hand");
}

TEST(Module, TiedParametersAreListedOnceAndSavedTwice) {
  Net net;
  const std::size_t before = net.parameters().size();
  net.token.weight.tie(net.head.weight);
  EXPECT_EQ(net.parameters().size(), before - 1);
  const StateDict state = net.state_dict();
  EXPECT_EQ(state.at("token.weight").to_vector<float>(),
            state.at("head.weight").to_vector<float>());

  fill(net.head.weight, 3);
  EXPECT_EQ(net.token.weight->to_vector<float>(), std::vector<float>(15, 3.0f));
  EXPECT_EQ(message_of<ShapeError>([&] { net.token.weight.tie(net.scale); }),
            "tie: shapes differ: [5, 3] and [1]");
  EXPECT_EQ(message_of([&] { net.token.weight.tie(net.head.bias); }),
            "tie: a parameter is undefined");
}

TEST(Module, TiedGradientsAdd) {
  nn::Linear a(2, 2, {.bias = false, .device = test_device()});
  nn::Linear b(2, 2, {.bias = false, .device = test_device()});
  b.weight.tie(a.weight);
  const Tensor x = ones({1, 2}, {.device = test_device()});
  (a(x) + b(x)).sum().backward();
  EXPECT_EQ(a.weight->grad().to_vector<float>(), std::vector<float>(4, 2.0f));
  EXPECT_EQ(b.weight->grad().to_vector<float>(), std::vector<float>(4, 2.0f));
}

TEST(Module, AModuleAddedTwiceIsListedOnce) {
  nn::Linear shared(2, 2);
  nn::Sequential model({{"a", shared}, {"b", shared}});
  EXPECT_EQ(names(model.named_parameters()), (Names{"a.weight", "a.bias"}));
  EXPECT_EQ(names(model.state_dict()), (Names{"a.weight", "a.bias", "b.weight", "b.bias"}));
  EXPECT_EQ(model.named_modules().size(), 2u);
}

TEST(Module, ModeReachesEveryChild) {
  Net net;
  net.eval();
  for (const auto& [name, module] : net.named_modules())
    EXPECT_FALSE(module->is_training()) << name;
  net.train();
  for (const auto& [name, module] : net.named_modules()) EXPECT_TRUE(module->is_training()) << name;
}

TEST(Module, ZeroGradDropsEveryGradient) {
  Net net;
  net.to(test_device());
  net(from_vector<std::int64_t>({0, 4}, {.device = test_device()})).sum().backward();
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.grad().defined());
  net.zero_grad();
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
}

TEST(Module, ToDTypeConvertsFloatsInPlaceWithTheirGradients) {
  Net net;
  const std::vector<Tensor> before = net.parameters();
  const std::vector<float> values = net.head.weight->to_vector<float>();
  net(from_vector<std::int64_t>({0, 4})).sum().backward();
  const std::vector<float> gradient = net.head.weight->grad().to_vector<float>();
  net.to(DType::f64);
  for (const Tensor& p : before) {  // handles taken before refer to the same parameters
    EXPECT_EQ(p.dtype(), DType::f64);
    EXPECT_EQ(p.grad().dtype(), DType::f64);
    EXPECT_TRUE(p.requires_grad() && p.is_leaf());
  }
  EXPECT_EQ(net.named_buffers()[0].second.dtype(), DType::i64);
  EXPECT_EQ(net.head.weight->to_vector<double>(),
            std::vector<double>(values.begin(), values.end()));
  EXPECT_EQ(net.head.weight->grad().to_vector<double>(),
            std::vector<double>(gradient.begin(), gradient.end()));
  EXPECT_EQ(message_of<DTypeError>([&] { net.to(DType::i64); }),
            "Module::to: i64 is not a floating dtype");
}

TEST(Module, ToDeviceMovesInPlaceAndDeviceNamesStrays) {
  EXPECT_EQ(nn::ReLU().device(), Device::cpu());
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  Net net;
  EXPECT_EQ(net.device(), Device::cpu());
  const std::vector<Tensor> before = net.parameters();
  const std::vector<float> values = net.head.weight->to_vector<float>();
  net(from_vector<std::int64_t>({0, 4})).sum().backward();
  net.to(test_device());
  EXPECT_EQ(net.device(), test_device());
  for (const Tensor& p : before) {
    EXPECT_EQ(p.device(), test_device());
    EXPECT_EQ(p.grad().device(), test_device());
  }
  EXPECT_EQ(net.head.weight->to_vector<float>(), values);
  EXPECT_EQ(net.blocks.named_buffers()[0].second.device(), test_device());

  net.head.to(Device::cpu());
  net.token.to(Device::cpu());
  const std::string home = to_string(test_device());
  EXPECT_EQ(message_of<DeviceError>([&] { net.device(); }),
            "Module::device: the module is on " + home +
                ", but for token.weight (cpu), head.weight (cpu)");
}

TEST(Sequential, TakesNamedAndUnnamedModules) {
  nn::Sequential named({{"fc1", nn::Linear(2, 8)}, {"act", nn::Tanh()}, {"fc2", nn::Linear(8, 1)}});
  EXPECT_EQ(names(named.state_dict()), (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  nn::Sequential unnamed({nn::Linear(2, 8), nn::ReLU(), nn::Linear(8, 1)});
  EXPECT_EQ(names(unnamed.state_dict()), (Names{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(unnamed(ones({4, 2})).shape(), (Shape{4, 1}));
  nn::Sequential nested({nn::Sequential({nn::Linear(2, 2)}), nn::ReLU()});
  EXPECT_EQ(names(nested.state_dict()), (Names{"0.0.weight", "0.0.bias"}));
  EXPECT_EQ(message_of([] { nn::Sequential({{"a", nn::ReLU()}, {"a", nn::Tanh()}}); }),
            "add: there is already a 'a'");
  const Tensor x = ones({3});
  EXPECT_EQ(nn::Sequential()(x).to_vector<float>(), x.to_vector<float>());
}

// A list of one Sequential is a Sequential inside a Sequential, however the compiler treats copies.
TEST(Sequential, OfOneSequentialIsNested) {
  const Names nested{"0.0.weight", "0.0.bias"};
  const nn::Sequential inner({nn::Linear(2, 2)});
  const nn::Sequential direct({inner}), temporary({nn::Sequential({nn::Linear(2, 2)})});
  EXPECT_EQ(names(direct.state_dict()), nested);
  EXPECT_EQ(names(temporary.state_dict()), nested);
  EXPECT_EQ(names(nn::Sequential({direct}).state_dict()), (Names{"0.0.0.weight", "0.0.0.bias"}));
  EXPECT_EQ(nn::Sequential({inner, inner}).size(), 2u);
  const nn::Sequential of_derived({OneLayer()});
  EXPECT_EQ(names(of_derived.state_dict()), nested);
  EXPECT_EQ(of_derived[0].kind(), "OneLayer");
  const nn::Sequential copy(inner);  // not a list, but a handle to the same module
  EXPECT_EQ(names(copy.state_dict()), (Names{"0.weight", "0.bias"}));
}

TEST(Parameter, IsFrozenThroughItsHandle) {
  nn::Linear layer(2, 3, {.device = test_device()});
  layer.weight->set_requires_grad(false);
  EXPECT_FALSE(layer.weight->requires_grad());
  EXPECT_FALSE(layer.parameters()[0].requires_grad());
  layer(ones({1, 2}, {.device = test_device()})).sum().backward();
  EXPECT_FALSE(layer.weight->grad().defined());
  EXPECT_TRUE(layer.bias->grad().defined());
  EXPECT_THROW(nn::Linear(2, 3, {.bias = false}).bias->set_requires_grad(false), ArgumentError);
}

TEST(Linear, HasPyTorchsShapesAndInitialisation) {
  manual_seed(1);
  nn::Linear layer(100, 50, {.device = test_device()});
  EXPECT_EQ(layer.weight->shape(), (Shape{50, 100}));
  EXPECT_EQ(layer.bias->shape(), (Shape{50}));
  EXPECT_EQ(layer.weight->device(), test_device());
  double sum = 0, squares = 0;
  float largest = 0;
  for (const float w : layer.weight->to_vector<float>()) {
    sum += w;
    squares += static_cast<double>(w) * w;
    largest = std::max(largest, std::abs(w));
  }
  EXPECT_LE(largest, 0.1f);
  EXPECT_GT(largest, 0.099f);
  EXPECT_NEAR(sum / 5000, 0, 0.003);
  EXPECT_NEAR(squares / 5000, 0.1 * 0.1 / 3, 1e-4);  // variance of U(-0.1, 0.1)
  for (const float b : layer.bias->to_vector<float>()) EXPECT_LE(std::abs(b), 0.1f);

  EXPECT_FALSE(nn::Linear(2, 2, {.bias = false}).bias.defined());
  EXPECT_EQ(nn::Linear(2, 2, {.dtype = DType::f64}).weight->dtype(), DType::f64);
  EXPECT_EQ(message_of([] { nn::Linear(0, 4); }), "Linear: sizes must be positive, got (0, 4)");
}

TEST(Linear, ComputesXTimesTheTransposedWeightPlusBias) {
  nn::Linear layer(2, 3, {.device = test_device()});
  Tensor weight = layer.weight, bias = layer.bias;
  {
    NoGrad no_grad;
    weight.copy_(tensor({1, 2, 3, 4, 5, 6}, {3, 2}, {.device = test_device()}));
    bias.copy_(tensor({10, 20, 30}, {.device = test_device()}));
  }
  EXPECT_EQ(layer(tensor({1, -1}, {1, 2}, {.device = test_device()})).to_vector<float>(),
            (std::vector<float>{9, 19, 29}));
}

TEST(Dropout, DropsOnlyWhileTraining) {
  manual_seed(3);
  nn::Dropout drop(0.25);
  const Tensor x = ones({100, 100}, {.device = test_device()});
  int zeros = 0;
  for (const float v : drop(x).to_vector<float>()) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0f / 3.0f) < 1e-6f) << v;
    zeros += v == 0;
  }
  EXPECT_NEAR(zeros, 2500, 200);  // more than four deviations
  EXPECT_NE(drop(x).to_vector<float>(), drop(x).to_vector<float>());
  drop.eval();
  EXPECT_EQ(drop(x).to_vector<float>(), std::vector<float>(10000, 1.0f));
  EXPECT_EQ(message_of([] { nn::Dropout(1.5); }), "Dropout: p must be in [0, 1], got 1.5");
}

TEST(LayerNorm, NormalizesRowsThenScalesAndShifts) {
  nn::LayerNorm norm(4, {.device = test_device()});
  EXPECT_EQ(norm.weight->to_vector<float>(), std::vector<float>(4, 1.0f));
  EXPECT_EQ(norm.bias->to_vector<float>(), std::vector<float>(4, 0.0f));
  fill(norm.weight, 2);
  fill(norm.bias, 1);
  const std::vector<float> y =
      norm(tensor({1, 2, 3, 4}, {1, 4}, {.device = test_device()})).to_vector<float>();
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(y[static_cast<std::size_t>(i)], 1 + 2 * (i - 1.5) / std::sqrt(1.25 + 1e-5), 1e-5);
  }
  EXPECT_EQ(nn::LayerNorm({2, 3}).weight->shape(), (Shape{2, 3}));
  EXPECT_TRUE(nn::LayerNorm(4, {.elementwise_affine = false}).parameters().empty());
  EXPECT_FALSE(nn::LayerNorm(4, {.bias = false}).bias.defined());
  EXPECT_EQ(message_of([] { nn::LayerNorm(0); }),
            "LayerNorm: nothing to normalize over in shape [0]");
}

TEST(Embedding, PicksRows) {
  manual_seed(5);
  nn::Embedding embedding(1000, 8, {.device = test_device()});
  const std::vector<float> rows = embedding.weight->to_vector<float>();
  double sum = 0, squares = 0;
  for (const float v : rows) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  EXPECT_NEAR(sum / 8000, 0, 0.05);
  EXPECT_NEAR(squares / 8000, 1, 0.07);
  const Tensor y =
      embedding(from_vector<std::int64_t>({7, 0}, Shape{2, 1}, {.device = test_device()}));
  EXPECT_EQ(y.shape(), (Shape{2, 1, 8}));
  std::vector<float> expected(rows.begin() + 56, rows.begin() + 64);
  expected.insert(expected.end(), rows.begin(), rows.begin() + 8);
  EXPECT_EQ(y.to_vector<float>(), expected);
  EXPECT_EQ(message_of([] { nn::Embedding(3, -1); }),
            "Embedding: sizes must be positive, got (3, -1)");
}

TEST(Embedding, PaddingIsZeroAndTakesNoGradient) {
  const Tensor ids = from_vector<std::int64_t>({2, 1, 3, 1}, {2, 2}, {.device = test_device()});
  for (const std::int64_t padding : {1, -3}) {
    nn::Embedding embedding(4, 3, {.padding_idx = padding, .device = test_device()});
    EXPECT_EQ(abs(embedding.weight->narrow(0, 1, 1)).sum().item(), 0);
    EXPECT_GT(abs(embedding.weight->narrow(0, 2, 1)).sum().item(), 0);
    fill(embedding.weight, 0.5);
    const Tensor y = embedding(ids);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(12, 0.5f)) << "what the row holds";
    (y * 2).sum().backward();
    EXPECT_EQ(embedding.weight->grad().sum(1).to_vector<float>(), (std::vector<float>{0, 0, 6, 6}));
  }
  EXPECT_EQ(message_of([] { nn::Embedding(4, 3, {.padding_idx = 4}); }),
            "Embedding: padding_idx 4 is none of 4 rows");
  EXPECT_EQ(message_of([] { nn::Embedding(4, 3, {.padding_idx = -5}); }),
            "Embedding: padding_idx -5 is none of 4 rows");
}

TEST(Embedding, FromPretrainedRows) {
  Tensor rows = tensor({1, 2, 3, 4, 5, 6}, {3, 2}, {.device = test_device()});
  const Tensor ids = from_vector<std::int64_t>({2, 0}, {2}, {.device = test_device()});
  nn::Embedding frozen = nn::Embedding::from_pretrained(rows);
  EXPECT_EQ(frozen(ids).to_vector<float>(), (std::vector<float>{5, 6, 1, 2}));
  EXPECT_FALSE(frozen.weight->requires_grad());
  EXPECT_FALSE(frozen(ids).requires_grad());
  EXPECT_EQ(names(frozen.state_dict()), Names{"weight"});
  nn::Embedding trained = nn::Embedding::from_pretrained(rows, {.freeze = false, .padding_idx = 0});
  EXPECT_EQ(trained(ids).to_vector<float>(), (std::vector<float>{5, 6, 1, 2})) << "rows as given";
  trained(ids).sum().backward();
  EXPECT_EQ(trained.weight->grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 1, 1}));
  EXPECT_FALSE(rows.requires_grad()) << "the layer has a parameter of its own";
  EXPECT_EQ(message_of<ShapeError>([] { nn::Embedding::from_pretrained(ones({3})); }),
            "Embedding: pretrained rows must be [count, dim], got [3]");
  EXPECT_EQ(message_of<DTypeError>(
                [] { nn::Embedding::from_pretrained(ones({3, 2}, {.dtype = DType::i64})); }),
            "Embedding: pretrained rows must be floating, got i64");
  EXPECT_EQ(message_of([] { nn::Embedding::from_pretrained(Tensor()); }),
            "Embedding: the pretrained rows are not a tensor");
}

TEST(Activations, AreTheirFunctions) {
  const Tensor x = tensor({-2, -0.5, 0, 1, 3}, {1, 5}, {.device = test_device()});
  const auto expect = [&](nn::Module&& module, const std::function<double(double)>& reference) {
    const std::vector<float> in = x.to_vector<float>(), out = module(x).to_vector<float>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      EXPECT_NEAR(out[i], reference(static_cast<double>(in[i])), 1e-6);
    }
  };
  const auto sigmoid_of = [](double v) { return 1 / (1 + std::exp(-v)); };
  double total = 0;
  for (const double v : {-2.0, -0.5, 0.0, 1.0, 3.0}) total += std::exp(v);
  expect(nn::ReLU(), [](double v) { return std::max(v, 0.0); });
  expect(nn::Tanh(), [](double v) { return std::tanh(v); });
  expect(nn::Sigmoid(), sigmoid_of);
  expect(nn::SiLU(), [&](double v) { return v * sigmoid_of(v); });
  expect(nn::GELU(), [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); });
  expect(nn::Softmax(1), [&](double v) { return std::exp(v) / total; });
  expect(nn::LogSoftmax(-1), [&](double v) { return v - std::log(total); });
}
