// Recurrent layers and cells against PyTorch (tests/golden/recurrent.py): outputs, final states,
// and the gradients of inputs, states and all weights for every combination of options; ten steps
// of SGD.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/test_device.h"
#include "volta/nn/recurrent.h"
#include "volta/nn/recurrent_cells.h"
#include "volta/volta.h"

namespace volta {
namespace {

const StateDict& golden_values() {
  static const StateDict values =
      load(paths::golden_dir() + "/recurrent.safetensors", {.device = test_device()});
  return values;
}

// A case "<prefix><kind>/<options>".
struct Case {
  std::string name, kind;
  std::set<std::string> options;

  Case(const std::string& of, const std::string& prefix) : name(of) {
    const std::string rest = of.substr(prefix.size());
    kind = rest.substr(0, rest.find('/'));
    std::istringstream words(rest.substr(rest.find('/') + 1));
    for (std::string word; std::getline(words, word, '_');) options.insert(word);
  }
  bool has(const std::string& option) const { return options.count(option) != 0; }
  bool is_cell() const { return kind.ends_with("cell"); }
  bool gives(const std::string& key) const { return golden_values().contains(name + "/" + key); }
  Tensor value(const std::string& key) const { return golden_values().at(name + "/" + key); }
};

std::vector<Case> cases_of(const std::string& prefix) {
  std::vector<Case> all;
  for (const auto& [key, value] : golden_values()) {
    if (!key.starts_with(prefix) || !key.ends_with("/w")) continue;
    const Case found(key.substr(0, key.size() - 2), prefix);
    const bool nested = found.kind == "steps" || found.kind == "bf16";
    if (!prefix.empty() || !nested) all.push_back(found);
  }
  return all;
}

struct Results {
  Tensor out, h, c;
};

// A network of the case's kind: its parameters, and how to call it.
struct Net {
  std::vector<Tensor> parameters;
  std::function<Results(const Tensor& x, const Tensor& h, const Tensor& c)> run;

  template <class M>
  void use(const M& module) {
    parameters = module.parameters();
  }
};

Net made(const Case& c, std::int64_t input, std::int64_t hidden, DType dtype) {
  Net net;
  const nn::GRUOptions options{.num_layers = c.has("l2") ? 2 : 1,
                               .bias = !c.has("nobias"),
                               .batch_first = c.has("bf"),
                               .bidirectional = c.has("bi"),
                               .dtype = dtype,
                               .device = test_device()};
  const nn::RecurrentCellOptions cell{
      .bias = options.bias, .dtype = dtype, .device = test_device()};
  const auto nonlinearity = c.has("relu") ? nn::RNNNonlinearity::relu : nn::RNNNonlinearity::tanh;
  if (c.kind == "lstm") {
    nn::LSTM lstm(input, hidden,
                  {.num_layers = options.num_layers,
                   .bias = options.bias,
                   .batch_first = options.batch_first,
                   .bidirectional = options.bidirectional,
                   .proj_size = c.has("proj") ? 2 : 0,
                   .dtype = dtype,
                   .device = test_device()});
    net.use(lstm);
    net.run = [lstm](const Tensor& x, const Tensor& h, const Tensor& c0) mutable -> Results {
      auto [y, state] = h.defined() ? lstm(x, {h, c0}) : lstm(x);
      return {y, state.h, state.c};
    };
  } else if (c.kind == "gru") {
    nn::GRU gru(input, hidden, options);
    net.use(gru);
    net.run = [gru](const Tensor& x, const Tensor& h, const Tensor&) mutable -> Results {
      auto [y, state] = h.defined() ? gru(x, h) : gru(x);
      return {y, state, {}};
    };
  } else if (c.kind == "rnn") {
    nn::RNN rnn(input, hidden,
                {.num_layers = options.num_layers,
                 .nonlinearity = nonlinearity,
                 .bias = options.bias,
                 .batch_first = options.batch_first,
                 .bidirectional = options.bidirectional,
                 .dtype = dtype,
                 .device = test_device()});
    net.use(rnn);
    net.run = [rnn](const Tensor& x, const Tensor& h, const Tensor&) mutable -> Results {
      auto [y, state] = h.defined() ? rnn(x, h) : rnn(x);
      return {y, state, {}};
    };
  } else if (c.kind == "lstmcell") {
    nn::LSTMCell lstm(input, hidden, cell);
    net.use(lstm);
    net.run = [lstm](const Tensor& x, const Tensor& h, const Tensor& c0) mutable -> Results {
      auto [hn, cn] = h.defined() ? lstm(x, {h, c0}) : lstm(x);
      return {{}, hn, cn};
    };
  } else if (c.kind == "grucell") {
    nn::GRUCell gru(input, hidden, cell);
    net.use(gru);
    net.run = [gru](const Tensor& x, const Tensor& h, const Tensor&) mutable -> Results {
      return {{}, h.defined() ? gru(x, h) : gru(x), {}};
    };
  } else {
    nn::RNNCell rnn(input, hidden,
                    {.bias = options.bias,
                     .nonlinearity = nonlinearity,
                     .dtype = dtype,
                     .device = test_device()});
    net.use(rnn);
    net.run = [rnn](const Tensor& x, const Tensor& h, const Tensor&) mutable -> Results {
      return {{}, h.defined() ? rnn(x, h) : rnn(x), {}};
    };
  }
  return net;
}

// Makes a network with the sizes and weights of the case.
Net loaded(const Case& c, DType dtype = DType::f32) {
  // A projection makes h smaller than c.
  const char* state = c.gives("cn") ? "cn" : c.gives("hn") ? "hn" : c.has("proj") ? "c" : "h";
  const Tensor x = c.value("x"), result = c.value(state);
  const std::int64_t input = x.shape()[x.rank() - 1], hidden = result.shape()[result.rank() - 1];
  Net net = made(c, input, hidden, dtype);
  const Tensor all = c.value("w");
  std::int64_t start = 0;
  const NoGrad no_grad;
  for (Tensor& p : net.parameters) {
    p.copy_(all.narrow(0, start, p.numel()).reshape(p.shape()).to(dtype));
    start += p.numel();
  }
  EXPECT_EQ(start, all.numel()) << "PyTorch has as many weights";
  return net;
}

// Compares relative to the largest element, or to a given scale.
void expect_close(const Tensor& actual, const Tensor& expected, double tolerance,
                  const std::string& what, double largest = 0) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const std::vector<double> a = actual.detach().to(DType::f64).to_vector<double>(),
                            e = expected.to(DType::f64).to_vector<double>();
  for (const double value : e) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], e[i], tolerance * largest) << what << " at " << i;
}

Tensor flat(const std::vector<Tensor>& parameters, bool gradients) {
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters)
    parts.push_back((gradients ? p.grad() : p.detach()).reshape({p.numel()}));
  return concat(parts);
}

void check(const Case& c, DType dtype, double tolerance) {
  SCOPED_TRACE(c.name);
  const Net net = loaded(c, dtype);
  const auto input = [&](const char* key) {
    if (!c.gives(key)) return Tensor();
    Tensor value = c.value(key).to(dtype).clone();
    value.set_requires_grad(true);
    return value;
  };
  const Tensor x = input("x"), h = input("h"), c0 = input("c");
  const Results results = net.run(x, h, c0);
  std::vector<Tensor> outputs, gradients;
  const auto use = [&](const Tensor& result, const char* key, const char* gradient) {
    EXPECT_EQ(result.defined(), c.gives(key)) << key;
    if (!result.defined()) return;
    EXPECT_EQ(result.dtype(), dtype);
    outputs.push_back(result);
    gradients.push_back(c.value(gradient).to(dtype));
  };
  use(results.out, "out", "g");
  use(results.h, "hn", "gh");
  use(results.c, "cn", "gc");
  Tensor loss = zeros({}, {.device = test_device()});
  for (std::size_t i = 0; i < outputs.size(); ++i)
    loss = loss + (outputs[i].to(DType::f32) * gradients[i].to(DType::f32)).sum();
  loss.backward();
  if (results.out.defined()) expect_close(results.out, c.value("out"), tolerance, "out");
  expect_close(results.h, c.value("hn"), tolerance, "hn");
  if (results.c.defined()) expect_close(results.c, c.value("cn"), tolerance, "cn");
  expect_close(x.grad(), c.value("dx"), tolerance, "dx");
  if (h.defined()) expect_close(h.grad(), c.value("dh"), tolerance, "dh");
  if (c0.defined()) expect_close(c0.grad(), c.value("dc"), tolerance, "dc");
  // Every parameter is compared by itself, so that small gradients count. Those of halves have
  // errors relative to the largest of the steps that are summed.
  std::int64_t start = 0;
  const Tensor expected = c.value("dw");
  const double scale = dtype == DType::bf16 ? expected.abs().max().item<double>() : 0;
  for (std::size_t i = 0; i < net.parameters.size(); ++i) {
    const Tensor& p = net.parameters[i];
    const Tensor wanted = expected.narrow(0, start, p.numel()).reshape(p.shape());
    start += p.numel();
    expect_close(p.grad(), wanted, tolerance, "gradient of parameter " + std::to_string(i), scale);
  }
}

bool on_opencl() { return test_device().type() == DeviceType::opencl; }

TEST(GoldenRecurrent, EveryOption) {
  const std::vector<Case> all = cases_of("");
  EXPECT_EQ(all.size(), 141u);
  for (const Case& c : all) {
    // Steps are kernels of their own for each kind, so OpenCL compiles only a few.
    const bool few = c.name == "lstm/l2_bi_state" || c.name == "gru/large_state";
    if (!on_opencl() || few) check(c, DType::f32, 1e-5);
  }
}

TEST(GoldenRecurrent, Halves) {
  if (on_opencl()) GTEST_SKIP() << "the programs are the same with other loads";
  const std::vector<Case> all = cases_of("bf16/");
  EXPECT_EQ(all.size(), 5u);
  for (const Case& c : all) check(c, DType::bf16, 1e-2);
}

TEST(GoldenRecurrent, TenSteps) {
  if (on_opencl()) GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  const std::vector<Case> all = cases_of("steps/");
  EXPECT_EQ(all.size(), 3u);
  for (const Case& c : all) {
    SCOPED_TRACE(c.name);
    const Net net = loaded(c);
    optim::SGD sgd(net.parameters, {.lr = 0.5});
    const Tensor target = c.value("target"), before = c.value("w");
    std::vector<float> losses;
    for (int step = 0; step < 10; ++step) {
      sgd.zero_grad();
      const Tensor y =
          net.run(c.value("x"), c.value("h"), c.gives("c") ? c.value("c") : Tensor()).out;
      const Tensor loss = mse_loss(y, target);
      loss.backward();
      sgd.step();
      losses.push_back(loss.item<float>());
    }
    expect_close(flat(net.parameters, false) - before, c.value("after") - before, 1e-4, "weights");
    const std::vector<float> expected = c.value("losses").to_vector<float>();
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << "step " << i;
  }
}

}  // namespace
}  // namespace volta
