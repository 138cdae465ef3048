// Recurrent layers: names and initial values of their parameters, the cost of a step, gradients of
// gradients, modes, mistakes. Values are compared with PyTorch's in recurrent_golden_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "support/test_device.h"
#include "volta/nn/recurrent.h"
#include "volta/nn/recurrent_cells.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Names = std::vector<std::string>;

Names names_of(const nn::Module& module) {
  Names names;
  for (const auto& [name, value] : module.named_parameters()) names.push_back(name);
  return names;
}

template <class E, class F>
std::string message_of(F&& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Steps are kernels of their own for each kind of layer; GoldenRecurrent compiles some of them.
bool compiles_slowly() { return test_device().type() == DeviceType::opencl; }
constexpr const char* kSlow = "compiling its kernels takes longer than they tell";

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_LE((a.detach() - b.detach()).abs().max().item<double>(), tolerance);
}

TEST(Recurrent, NamesShapesAndInitialValuesArePyTorchs) {
  const nn::LSTM lstm(5, 64, {.num_layers = 2, .bidirectional = true});
  EXPECT_EQ(
      names_of(lstm),
      (Names{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
             "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_ih_l1",
             "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_ih_l1_reverse",
             "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"}));
  const StateDict state = lstm.state_dict();
  EXPECT_EQ(state.at("weight_ih_l0").shape(), (Shape{256, 5}));
  EXPECT_EQ(state.at("weight_ih_l1").shape(), (Shape{256, 128}));
  EXPECT_EQ(state.at("weight_hh_l1_reverse").shape(), (Shape{256, 64}));
  EXPECT_EQ(state.at("bias_hh_l0").shape(), (Shape{256}));
  EXPECT_EQ(lstm.weights(1, true).weight_hh->shape(), (Shape{256, 64}));
  const nn::LSTM projected(5, 64, {.num_layers = 2, .bidirectional = true, .proj_size = 16});
  EXPECT_EQ(names_of(projected)[4], "weight_hr_l0");
  EXPECT_EQ(names_of(projected)[9], "weight_hr_l0_reverse");
  EXPECT_EQ(projected.weights(1).weight_hr->shape(), (Shape{16, 64}));
  EXPECT_EQ(projected.weights(1).weight_hh->shape(), (Shape{256, 16}));
  EXPECT_EQ(projected.weights(1).weight_ih->shape(), (Shape{256, 32}));
  EXPECT_EQ(names_of(nn::GRU(2, 3, {.bias = false})), (Names{"weight_ih_l0", "weight_hh_l0"}));
  EXPECT_EQ(nn::GRU(2, 3).weights().weight_ih->shape(), (Shape{9, 2}));
  EXPECT_EQ(nn::RNN(2, 3).weights().bias_ih->shape(), (Shape{3}));
  EXPECT_EQ(names_of(nn::LSTMCell(2, 3)), (Names{"weight_ih", "weight_hh", "bias_ih", "bias_hh"}));
  EXPECT_EQ(names_of(nn::GRUCell(2, 3, {.bias = false})), (Names{"weight_ih", "weight_hh"}));
  // Uniform within ±1/8: the range and variance must match.
  for (const auto& [name, value] : lstm.named_parameters()) {
    EXPECT_LE(value.abs().max().item<double>(), 0.125) << name;
    EXPECT_GT(value.abs().max().item<double>(), 0.12) << name;
    EXPECT_NEAR(value.detach().std().item<double>(), 0.125 / std::sqrt(3.0), 0.008) << name;
  }
}

// A sequence processed in two parts, the second from the final state of the first, gives the same
// result.
TEST(Recurrent, GoesOnFromAState) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  manual_seed(1);
  nn::LSTM lstm(3, 4, {.num_layers = 2, .device = test_device()});
  nn::LSTMCell cell(3, 4, {.device = test_device()});
  const Tensor x = randn({6, 2, 3}, {.device = test_device()});
  auto [all, last] = lstm(x);
  auto [first, state] = lstm(x.narrow(0, 0, 2));
  auto [second, end] = lstm(x.narrow(0, 2, 4), state);
  expect_near(concat({first, second}), all, 1e-6);
  expect_near(end.h, last.h, 1e-6);
  expect_near(end.c, last.c, 1e-6);
  expect_near(all.narrow(0, 5, 1).reshape({2, 4}), last.h.narrow(0, 1, 1).reshape({2, 4}), 0);
}

TEST(Recurrent, ACellIsAStepOfALayer) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  manual_seed(2);
  nn::LSTM lstm(3, 4, {.device = test_device()});
  nn::LSTMCell cell(3, 4, {.device = test_device()});
  StateDict weights;
  for (const auto& [name, value] : lstm.state_dict())
    weights.add(name.substr(0, name.size() - 3), value);
  cell.load_state_dict(weights);
  const Tensor x = randn({3, 2, 3}, {.device = test_device()});
  const Tensor zero = zeros({2, 4}, {.device = test_device()});
  nn::LSTMState state{zero, zero};
  for (std::int64_t t = 0; t < 3; ++t) state = cell(x.narrow(0, t, 1).reshape({2, 3}), state);
  auto [y, last] = lstm(x);
  expect_near(state.h, last.h.reshape({2, 4}), 1e-6);
  expect_near(state.c, last.c.reshape({2, 4}), 1e-6);
  state.h.sum().backward();
  last.h.sum().backward();
  expect_near(cell.weight_hh->grad(), lstm.weights().weight_hh->grad(), 1e-5);
  expect_near(cell.bias_ih->grad(), lstm.weights().bias_ih->grad(), 1e-5);
}

TEST(Recurrent, DropoutIsBetweenLayersAndWhileTraining) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  manual_seed(3);
  const nn::GRUOptions options{.num_layers = 2, .dropout = 0.5, .device = test_device()};
  nn::GRU gru(3, 16, options), single(3, 16, {.dropout = 0.5, .device = test_device()});
  const Tensor x = randn({4, 2, 3}, {.device = test_device()});
  EXPECT_GT((gru(x).output - gru(x).output).abs().max().item<float>(), 1e-3f);
  expect_near(single(x).output, single(x).output, 0);
  gru.eval();
  expect_near(gru(x).output, gru(x).output, 0);
}

// The gradients of the steps against finite differences, and the gradients of gradients.
TEST(RecurrentGradients, AgreeWithDifferencesToAnyOrder) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::tanh, Cell::relu}) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(static_cast<int>(cell) * 10 + reverse);
      manual_seed(4);
      const TensorOptions f64{.dtype = DType::f64, .device = test_device()};
      const std::int64_t size = 2, width = gates_of(cell) * size;
      std::vector<Tensor> inputs{randn({2, 2, width}, f64), randn({width, size}, f64),
                                 randn({width}, f64), randn({2, size}, f64)};
      if (cell == Cell::lstm) inputs.push_back(randn({2, size}, f64));
      const auto run = [&](const std::vector<Tensor>& in) {
        const RecurrentResult r = recurrent(cell, in[0], in[1], in[2], in[3],
                                            in.size() > 4 ? in[4] : Tensor(), {.reverse = reverse});
        Tensor sum = (r.output * r.output).sum() + r.h.sum();
        return r.c.defined() ? sum + (r.c * r.c).sum() : sum;
      };
      const CheckReport first = check_gradients(run, inputs);
      EXPECT_TRUE(first.passed) << first.message;
      if (cell == Cell::relu) continue;  // flat except at its kinks
      const auto slope = [&](const std::vector<Tensor>& in) {
        const EnableGrad on;
        std::vector<Tensor> at = in;
        for (Tensor& t : at) {
          if (!t.requires_grad()) t = t.detach().set_requires_grad(true);
        }
        const std::vector<Tensor> d = grad({run(at)}, at, {.create_graph = true});
        return (d[0] * d[0]).sum() + (d[1] * d[1]).sum() + (d[3] * d[3]).sum();
      };
      const CheckReport second = check_gradients(slope, inputs, {.tol = 1e-5});
      EXPECT_TRUE(second.passed) << second.message;
    }
  }
}

TEST(RecurrentGradients, OfAProjectionAgreeWithDifferencesToAnyOrder) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    manual_seed(4);
    const TensorOptions f64{.dtype = DType::f64, .device = test_device()};
    const std::vector<Tensor> inputs{randn({3, 2, 12}, f64), randn({12, 2}, f64),
                                     randn({12}, f64),       randn({2, 2}, f64),
                                     randn({2, 3}, f64),     randn({2, 3}, f64)};
    const auto run = [&](const std::vector<Tensor>& in) {
      const RecurrentResult r = recurrent(Cell::lstm, in[0], in[1], in[2], in[3], in[4],
                                          {.reverse = reverse, .projection = in[5]});
      return (r.output * r.output).sum() + r.h.sum() + (r.c * r.c).sum();
    };
    const CheckReport first = check_gradients(run, inputs);
    EXPECT_TRUE(first.passed) << first.message;
    const auto slope = [&](const std::vector<Tensor>& in) {
      const EnableGrad on;
      std::vector<Tensor> at = in;
      for (Tensor& t : at) {
        if (!t.requires_grad()) t = t.detach().set_requires_grad(true);
      }
      const std::vector<Tensor> d = grad({run(at)}, at, {.create_graph = true});
      return (d[0] * d[0]).sum() + (d[1] * d[1]).sum() + (d[5] * d[5]).sum();
    };
    const CheckReport second = check_gradients(slope, inputs, {.tol = 1e-5});
    EXPECT_TRUE(second.passed) << second.message;
  }
}

TEST(Recurrent, ClonesAndSummaries) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  manual_seed(6);
  nn::LSTM lstm(3, 4, {.num_layers = 2, .device = test_device()});
  nn::LSTM copy = clone(lstm);
  {
    const NoGrad no_grad;
    Tensor weight = *copy.weights(1).weight_hh;
    weight.fill_(0);
  }
  EXPECT_GT(lstm.weights(1).weight_hh->abs().max().item<float>(), 0.1f);
  EXPECT_EQ(copy.state_dict().at("weight_hh_l1").abs().max().item<float>(), 0.0f);
  EXPECT_EQ(lstm.kind(), "LSTM");
  const Tensor x = zeros({5, 2, 3}, {.device = test_device()});
  const nn::Summary summary = lstm.summary([&] { lstm(x); });
  ASSERT_EQ(summary.rows.size(), 1u);
  EXPECT_EQ(summary.rows[0].outputs.at(0), (Shape{5, 2, 4}));
  nn::GRUCell cell(3, 4, {.device = test_device()});
  const nn::Summary of_cell = cell.summary([&] { cell(zeros({2, 3}, {.device = test_device()})); });
  EXPECT_EQ(of_cell.rows.at(0).outputs, (std::vector<Shape>{{2, 4}}));
  // The products with the inputs and the states of 5 steps of 2 sequences, in two layers.
  EXPECT_GE(summary.rows[0].operations, 2 * 10 * 16 * (3 + 4) + 2 * 10 * 16 * (4 + 4));
}

// ---- The cost of a step.

struct Cost {
  int kernels, calls;
  double bytes;
};

// The cost of a layer over sequences of a length: of its outputs, or with all gradients.
template <class M>
using OptionsOf = std::conditional_t<std::is_same_v<M, nn::GRU>, nn::GRUOptions, nn::LSTMOptions>;
template <class M>
Cost cost_of(std::int64_t length, OptionsOf<M> options, bool gradients, std::int64_t hidden = 64) {
  options.device = test_device();
  M net(hidden, hidden, options);
  Tensor x = randn({length, 32, hidden}, {.device = test_device(), .requires_grad = gradients});
  x.eval();
  for (const Tensor& p : net.parameters()) p.eval();
  std::vector<Tensor> wanted;
  if (gradients) {
    net(x).output.square().sum().backward();
    for (const Tensor& p : net.parameters()) wanted.push_back(p.grad());
    wanted.push_back(x.grad());
  } else {
    const NoGrad no_grad;
    wanted.push_back(net(x).output);
  }
  const Explanation plan = explain(wanted);
  double bytes = 0;
  for (const StepInfo& step : plan.steps)
    bytes += static_cast<double>(step.bytes_read + step.bytes_written);
  return {plan.kernels(), plan.library_calls(), bytes};
}

template <class M>
void expect_one_kernel_and_one_product_a_step() {
  for (const bool gradients : {false, true}) {
    SCOPED_TRACE(gradients);
    const Cost eight = cost_of<M>(8, {}, gradients), nine = cost_of<M>(9, {}, gradients);
    EXPECT_EQ(nine.kernels - eight.kernels, gradients ? 2 : 1);
    EXPECT_EQ(nine.calls - eight.calls, gradients ? 2 : 1);
    // The forward pass calls a product of the inputs, and one for each step but the first.
    // Gradients add one for each step but the last, and three for all steps together: dx, dW_ih,
    // dW_hh.
    EXPECT_EQ(eight.calls, gradients ? 1 + 7 + 7 + 3 : 1 + 7);
  }
}

TEST(RecurrentCounts, AStepIsOneKernelAndOneProduct) {
  expect_one_kernel_and_one_product_a_step<nn::LSTM>();
  expect_one_kernel_and_one_product_a_step<nn::GRU>();
}

// A projection takes one more product and one more kernel per step in each direction. The forward
// kernel writes the product into the sequence of outputs; the backward kernel adds the gradients
// from the output and from the following step.
TEST(RecurrentCounts, AProjectionIsOneMoreKernelAndProduct) {
  for (const bool gradients : {false, true}) {
    SCOPED_TRACE(gradients);
    const Cost eight = cost_of<nn::LSTM>(8, {.proj_size = 64}, gradients, 128),
               nine = cost_of<nn::LSTM>(9, {.proj_size = 64}, gradients, 128);
    EXPECT_EQ(nine.kernels - eight.kernels, gradients ? 4 : 2);
    EXPECT_EQ(nine.calls - eight.calls, gradients ? 4 : 2);
    // A projection adds a product for each step, its gradient for each step, and the weight's
    // gradient for all steps together.
    EXPECT_EQ(eight.calls, gradients ? 1 + 7 + 7 + 3 + 8 + 8 + 1 : 1 + 7 + 8);
  }
}

// Both directions run in parallel, with no more launches than one of them.
TEST(RecurrentCounts, DirectionsShareLaunches) {
  const Cost eight = cost_of<nn::LSTM>(8, {.bidirectional = true}, false),
             nine = cost_of<nn::LSTM>(9, {.bidirectional = true}, false);
  EXPECT_EQ(nine.kernels - eight.kernels, 1);
  EXPECT_EQ(nine.calls - eight.calls, 2);
}

// Twice the length costs twice as much: nothing is copied or recomputed for every later step.
TEST(RecurrentCounts, CostGrowsWithTheLength) {
  const Cost a = cost_of<nn::LSTM>(16, {}, true, 128), b = cost_of<nn::LSTM>(32, {}, true, 128),
             c = cost_of<nn::LSTM>(64, {}, true, 128);
  // The bias's gradient is a sum over all steps, which takes one more kernel for a long sequence.
  EXPECT_GE(c.kernels - b.kernels, 2 * (b.kernels - a.kernels));
  EXPECT_LE(c.kernels - b.kernels, 2 * (b.kernels - a.kernels) + 1);
  EXPECT_EQ(c.calls - b.calls, 2 * (b.calls - a.calls));
  // On GPUs this includes the results of chunks.
  EXPECT_NEAR((c.bytes - b.bytes) / (b.bytes - a.bytes), 2, test_device().is_cpu() ? 0.01 : 0.03);
}

// Gates are not stored unless a gradient needs them, and cells only until the next step.
TEST(RecurrentCounts, WithoutGradientsOnlyOutputsAreKept) {
  nn::LSTM lstm(64, 64, {.device = test_device()});
  const Tensor x = randn({32, 32, 64}, {.device = test_device()});
  x.eval();
  for (const Tensor& p : lstm.parameters()) p.eval();
  const NoGrad no_grad;
  auto [y, state] = lstm(x);
  const Explanation plan = explain(y);
  const std::uint64_t one = 32 * 64 * 4;  // bytes of a state
  // The gates of all inputs, and for one step the gates of the state and two cells.
  EXPECT_LE(plan.arena_bytes, 32 * 4 * one + (4 + 2) * one);
}

TEST(RecurrentCounts, TrainingReplaysOnePlan) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  nn::LSTM lstm(128, 128, {.device = test_device()});
  optim::Adam adam(lstm.parameters(), {.lr = 1e-3});
  const Tensor x = randn({64, 32, 128}, {.device = test_device()});
  float first = 0, last = 0;
  std::uint64_t submits = 0, built = 0, launches = 0, calls = 0, allocations = 0, earlier = 0;
  for (int step = 0; step < 6; ++step) {
    if (step == 3) first = last;
    reset_counters();
    adam.zero_grad();
    const Tensor loss = lstm(x).output.square().mean();
    loss.backward();
    adam.step();
    last = loss.item<float>();
    const Counters now = counters();
    submits = now.submits;
    if (step >= 3) {
      built += now.plans_built;
      allocations += now.allocations;
      EXPECT_EQ(now.launches, earlier);
    }
    earlier = now.launches;
    launches = now.launches;
    calls = now.library_calls;
  }
  EXPECT_EQ(submits, 1u);
  EXPECT_EQ(built, 0u);
  EXPECT_EQ(allocations, 0u);
  EXPECT_GE(launches, 128u);  // a kernel for each step, forward and backward
  EXPECT_LE(launches, (calls > 0 ? 128u : 256u) + 10u);  // without a library, products too
  EXPECT_LT(last, first);
}

TEST(Recurrent, AutocastComputesInHalves) {
  if (compiles_slowly()) GTEST_SKIP() << kSlow;
  manual_seed(5);
  nn::LSTM lstm(8, 16, {.device = test_device()});
  const Tensor x = randn({5, 3, 8}, {.device = test_device()});
  const Tensor full = lstm(x).output;
  const Autocast scope(DType::bf16);
  auto [y, state] = lstm(x);
  EXPECT_EQ(y.dtype(), DType::bf16);
  expect_near(y.to(DType::f32), full, 2e-2);
  y.to(DType::f32).sum().backward();
  EXPECT_EQ(lstm.weights().weight_hh->grad().dtype(), DType::f32);
}

TEST(RecurrentErrors, NameTheLayerAndTheShapes) {
  nn::LSTM lstm(3, 4, {.num_layers = 2, .batch_first = true});
  nn::GRU gru(3, 4);
  const Tensor x = zeros({2, 5, 3});
  const auto shape = [](auto&& fn) { return message_of<ShapeError>(fn); };
  const auto argument = [](auto&& fn) { return message_of<ArgumentError>(fn); };
  EXPECT_EQ(shape([&] { lstm(zeros({2, 5, 4})); }),
            "LSTM: input [2, 5, 4] does not end in input_size 3");
  EXPECT_EQ(shape([&] { gru(zeros({3})); }), "GRU: input [3] needs 2 or 3 axes");
  EXPECT_EQ(shape([&] { gru(zeros({0, 2, 3})); }), "GRU: input [0, 2, 3] has no steps");
  EXPECT_EQ(shape([&] { lstm(x, {zeros({2, 5, 4}), zeros({2, 2, 4})}); }),
            "LSTM: state h [2, 5, 4] is not [2, 2, 4] for input [2, 5, 3]");
  EXPECT_EQ(shape([&] { gru(x, zeros({1, 4})); }),
            "GRU: state h [1, 4] is not [1, 5, 4] for input [2, 5, 3]");
  EXPECT_EQ(argument([&] { lstm(x, {zeros({2, 2, 4}), Tensor()}); }),
            "LSTM: the state c is not a tensor");
  EXPECT_EQ(argument([&] { lstm(Tensor()); }), "LSTM: the input is not a tensor");
  EXPECT_EQ(argument([&] { (void)lstm.weights(2); }), "LSTM: there is no layer 2");
  EXPECT_EQ(argument([&] { (void)lstm.weights(0, true); }), "LSTM: there is no layer 0 in reverse");
  EXPECT_EQ(argument([] { nn::LSTM(0, 4); }), "LSTM: sizes must be positive, got (0, 4)");
  EXPECT_EQ(argument([] { nn::LSTM(3, 4, {.proj_size = 4}); }),
            "LSTM: proj_size must be in [0, hidden_size 4), got 4");
  nn::LSTM projected(3, 4, {.proj_size = 2});
  EXPECT_EQ(shape([&] { projected(zeros({5, 1, 3}), {zeros({1, 1, 4}), zeros({1, 1, 4})}); }),
            "LSTM: state h [1, 1, 4] is not [1, 1, 2] for input [5, 1, 3]");
  EXPECT_EQ(argument([] { nn::GRU(3, 4, {.num_layers = 0}); }),
            "GRU: num_layers must be 1 to 10000, got 0");
  EXPECT_EQ(argument([] { nn::RNN(3, 4, {.dropout = 1.5}); }),
            "RNN: dropout must be in [0, 1], got 1.5");
  nn::LSTMCell cell(3, 4);
  EXPECT_EQ(shape([&] { cell(zeros({2, 4})); }),
            "LSTMCell: input [2, 4] does not end in input_size 3");
  EXPECT_EQ(shape([&] { cell(zeros({2, 2, 3})); }), "LSTMCell: input [2, 2, 3] needs 1 or 2 axes");
  EXPECT_EQ(shape([&] { cell(zeros({2, 3}), {zeros({2, 4}), zeros({4})}); }),
            "LSTMCell: state c [4] is not [2, 4] for input [2, 3]");
  EXPECT_EQ(argument([] { nn::GRUCell(3, -1); }), "GRUCell: sizes must be positive, got (3, -1)");
}

TEST(RecurrentErrors, OfTheFunction) {
  const Tensor x = zeros({2, 3, 8}), w = zeros({8, 2}), h = zeros({3, 2});
  const auto shape = [](auto&& fn) { return message_of<ShapeError>(fn); };
  EXPECT_EQ(shape([&] { recurrent(Cell::gru, x, w); }),
            "recurrent: x [2, 3, 8] is not [length, batch, 3 * size]");
  EXPECT_EQ(shape([&] { recurrent(Cell::lstm, x, zeros({8, 3})); }),
            "recurrent: weight [8, 3] is not [8, 2]");
  EXPECT_EQ(shape([&] { recurrent(Cell::lstm, x, w, zeros({4})); }),
            "recurrent: bias [4] is not [8]");
  EXPECT_EQ(shape([&] { recurrent(Cell::lstm, x, w, {}, zeros({2, 2}), h); }),
            "recurrent: h [2, 2] is not [3, 2]");
  EXPECT_EQ(shape([&] { recurrent(Cell::lstm, x, w, {}, h, zeros({2, 2})); }),
            "recurrent: c [2, 2] is not [3, 2]");
  EXPECT_EQ(message_of<ArgumentError>([&] { recurrent(Cell::lstm, x, w, {}, h); }),
            "recurrent: a state h without c");
  EXPECT_EQ(message_of<ArgumentError>([&] { recurrent(Cell::lstm, x, w, {}, {}, h); }),
            "recurrent: a state c without h");
  EXPECT_EQ(message_of<ArgumentError>([&] { recurrent(Cell::tanh, x, zeros({8, 8}), {}, {}, h); }),
            "recurrent: only an LSTM has a state c");
  EXPECT_EQ(message_of<ArgumentError>([&] { recurrent(Cell::lstm, x, Tensor()); }),
            "recurrent: the weight is not a tensor");
  EXPECT_EQ(message_of<DTypeError>([&] { recurrent(Cell::lstm, x, w.to(DType::f64)); }),
            "recurrent: x is f32, another operand is f64");
}

}  // namespace
}  // namespace volta
