// Placed programs: where parameters and batches are, what is moved again and what is not, memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backend/registry.h"
#include "graph/record/replicas.h"
#include "runtime/placement/placements.h"
#include "support/test_device.h"
#include "volta/models.h"
#include "volta/transfers.h"
#include "volta/volta.h"

namespace volta {
namespace {

// ---- Invalid options and figures

template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(PlacementOptions, ThresholdsAreNotNegative) {
  EXPECT_EQ(
      refusal([] {
        const ExecutionContext context({.placement = Placement::automatic, .gpu_threshold = -1});
      }),
      "ExecutionContext: gpu_threshold must not be negative, got -1 (0 makes every tensor "
      "count as large)");
  EXPECT_EQ(execution_options().gpu_threshold, ExecutionOptions().gpu_threshold);  // no scope began
  const ExecutionContext all_large({.placement = Placement::automatic, .gpu_threshold = 0});
  EXPECT_EQ(execution_options().gpu_threshold, 0);
}

TEST(PlacementOptions, RatesArePositive) {
  EXPECT_EQ(refusal([] { TimeCurve::of(1e-6, 0); }),
            "TimeCurve::of: amount_per_second must be finite and positive, got 0");
  EXPECT_EQ(refusal([] { TimeCurve::of(1e-6, -1e9); }),
            "TimeCurve::of: amount_per_second must be finite and positive, got -1000000000");
  EXPECT_EQ(refusal([] { TimeCurve::of(-1, 1e9); }),
            "TimeCurve::of: fixed_seconds must be finite and not negative, got -1");
  EXPECT_EQ(refusal([] { TimeCurve::of(std::nan(""), 1e9); }),
            "TimeCurve::of: fixed_seconds must be finite and not negative, got nan");
  EXPECT_EQ(TimeCurve::of(0, 2).seconds(4), 2);
}

TEST(PlacementOptions, FiguresAreOfAGpu) {
  EXPECT_NE(refusal([] {
              set_placement_figures(Device::cpu(), round_figures());
            }).find("which must be named, got cpu"),
            std::string::npos);
  EXPECT_NE(refusal([] { placement_figures(Device::cpu()); }).find("placement_figures: "),
            std::string::npos);
}

TEST_F(Placements, FiguresAreRefusedThatNothingCanBeReckonedWith) {
  const auto given = [](const TimeCurve& upload) {
    return refusal([&] {
      PlacementFigures figures = round_figures();
      figures.upload = upload;
      set_placement_figures(test_device(), figures);
    });
  };
  const std::string curve = "set_placement_figures: the curve \"upload\" ";
  EXPECT_EQ(given({}), curve + "has no points");
  EXPECT_EQ(given({{{1, 0}}}),
            curve + "says that 1 takes 0 s at point 0: both must be positive and finite");
  EXPECT_EQ(given({{{1, 1}, {-2, 1}}}),
            curve + "says that -2 takes 1 s at point 1: both must be positive and finite");
  EXPECT_EQ(given({{{1, 1}, {INFINITY, 1}}}),
            curve + "says that inf takes 1 s at point 1: both must be positive and finite");
  EXPECT_EQ(given({{{2, 1}, {1, 1}}}), curve + "has 1 after 2 at point 1: amounts must rise");
  EXPECT_EQ(given({{{2, 1}, {2, 2}}}), curve + "has 2 after 2 at point 1: amounts must rise");
  // The previous figures stay in force.
  EXPECT_EQ(placement_figures(test_device()).upload.points, round_figures().upload.points);
  EXPECT_EQ(refusal([] { set_placement_figures(test_device(), PlacementFigures()); }),
            "set_placement_figures: the curve \"cpu memory\" has no points");
  PlacementFigures without_functions = round_figures();
  without_functions.cpu.functions = without_functions.gpu.functions = {};
  set_placement_figures(test_device(), without_functions);
  const ExecutionContext context(options(Placement::by_cost));
  EXPECT_EQ(host_values({10}).tanh().device(), Device::cpu());
}

// ---- Layers and models without a named device

void expect_on(Device device, const nn::Module& module,
               std::source_location line = std::source_location::current()) {
  SCOPED_TRACE(line.line());
  for (const auto& [name, parameter] : module.named_parameters())
    EXPECT_EQ(parameter.device(), device) << name;
  for (const auto& [name, buffer] : module.named_buffers())
    EXPECT_EQ(buffer.device(), device) << name;
}

// One of each options struct; they name the device `named`.
void expect_layers_on(Device device, std::optional<Device> named = std::nullopt) {
  expect_on(device, nn::Linear(4, 4, {.device = named}));
  expect_on(device, nn::Conv1d(2, 2, 3, {.device = named}));
  expect_on(device, nn::Conv2d(2, 2, 3, {.device = named}));
  expect_on(device, nn::ConvTranspose1d(2, 2, 3, {.device = named}));
  expect_on(device, nn::ConvTranspose2d(2, 2, 3, {.device = named}));
  expect_on(device, nn::BatchNorm2d(4, {.device = named}));
  expect_on(device,
            nn::InstanceNorm2d(4, {.affine = true, .track_running_stats = true, .device = named}));
  expect_on(device, nn::GroupNorm(2, 4, {.device = named}));
  expect_on(device, nn::RMSNorm(4, {.device = named}));
  expect_on(device, nn::LayerNorm(4, {.device = named}));
  expect_on(device, nn::Embedding(4, 4, {.device = named}));
  expect_on(device, nn::PReLU(4, {.device = named}));
  expect_on(device, nn::LearnedEncoding(4, 4, {.device = named}));
  expect_on(device, nn::MultiheadAttention(4, 2, {.device = named}));
  expect_on(device, nn::TransformerBlock(4, 2, {.device = named}));
  expect_on(device, nn::TransformerEncoderLayer(4, 2, {.device = named}));
  expect_on(device, nn::LSTM(4, 4, {.device = named}));
  expect_on(device, nn::GRU(4, 4, {.device = named}));
  expect_on(device, nn::RNN(4, 4, {.device = named}));
  expect_on(device, nn::LSTMCell(4, 4, {.device = named}));
  expect_on(device, nn::RNNCell(4, 4, {.device = named}));
  expect_on(device, models::MLP({4, 4, 2}, {.device = named}));
  expect_on(device, models::LeNet({.device = named}));
  expect_on(device, models::VAE(8, {.hidden = 4, .latent = 2, .device = named}));
  expect_on(device, models::ESPCN(2, {.device = named}));
  expect_on(device, models::DCGANGenerator({.device = named}));
  expect_on(device, models::CharLSTM(8, {.embedding = 4, .hidden = 4, .device = named}));
  expect_on(device, models::resnet18({.classes = 4, .device = named}));
  expect_on(device, models::VGG(11, {.classes = 4, .device = named}));
  expect_on(device, models::GPT2(
                        {.vocab_size = 8, .n_positions = 4, .n_embd = 4, .n_layer = 1, .n_head = 2},
                        {.device = named}));
  const std::vector<std::int64_t> lengths{1, 2};
  EXPECT_EQ(nn::padding_mask(lengths, 0, named).device(), device);
  EXPECT_EQ(nn::causal_mask(4, {.device = named}).device(), device);
  EXPECT_EQ(nn::sinusoidal_positions(4, 4, 10000, {.device = named}).device(), device);
}

TEST(UnnamedDevices, AreTheCpuAsWritten) {
  const ExecutionContext context({.placement = Placement::as_written});
  expect_layers_on(Device::cpu());
}

// However long drawing takes, the next operations on the numbers would be slower there.
TEST_F(Placements, WhatIsDrawnIsWhereOperationsOfItsSizeAre) {
  PlacementFigures figures = round_figures();
  figures.cpu.functions = TimeCurve::of(1e-3, 1e6);
  set_placement_figures(test_device(), figures);
  const ExecutionContext context(options(Placement::by_cost));
  EXPECT_EQ(rand({1000}).device(), Device::cpu());
  EXPECT_EQ((rand({1000}) * 2).device(), Device::cpu());
  EXPECT_EQ(rand({1 << 20}).device(), test_device());
}

TEST_F(Placements, NamedDevicesAreTaken) {
  const Device device = test_device();
  expect_on(device, nn::Linear(4, 4, {.device = device}));
  expect_on(device, models::LeNet({.device = device}));
  const std::vector<std::int64_t> lengths{1, 2};
  EXPECT_EQ(nn::padding_mask(lengths, 0, device).device(), device);
}

// A tensor with a named device is created there, whatever the placement does with operations.
TEST_F(Placements, WhatIsMadeOnANamedDeviceStaysThere) {
  const std::vector<float> values(64, 1.0f);
  for (const Placement placement :
       {Placement::automatic, Placement::by_cost, Placement::minimize_transfers,
        Placement::force_gpu, Placement::force_cpu}) {
    ExecutionOptions all_large = options(placement);
    all_large.gpu_threshold = 1;
    const ExecutionContext context(all_large);
    for (const Device device : {Device::cpu(), test_device()}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(placement) << " " << device);
      const Tensor like = zeros({8}, {.device = device});
      const std::pair<const char*, Tensor> made[] = {
          {"zeros", zeros({64}, {.device = device})},
          {"ones", ones({64}, {.device = device})},
          {"full", full({64}, 2.5, {.device = device})},
          {"scalar", scalar(2.5, {.device = device})},
          {"empty", empty({64}, {.device = device})},
          {"tensor", tensor({1, 2, 3}, {.device = device})},
          {"from_vector", from_vector(values, {64}, {.device = device})},
          {"arange", arange(64, {.device = device})},
          {"arange by steps", arange(1, 64, 0.5, {.device = device})},
          {"linspace", linspace(0, 1, 64, {.device = device})},
          {"eye", eye(8, {.device = device})},
          {"rand", rand({64}, {.device = device})},
          {"rand of halves", rand({64}, {.dtype = DType::bf16, .device = device})},
          {"randn", randn({64}, {.device = device})},
          {"uniform", uniform({64}, -1, 1, {.device = device})},
          {"randint", randint(1, 5, {64}, {.device = device})},
          {"randint of many", randint(1, 1 << 20, {64}, {.device = device})},
          {"bernoulli", bernoulli({64}, 0.5, {.device = device})},
          {"bernoulli of tensors", bernoulli(like + 0.5, {.device = device})},
          {"zeros_like", zeros_like(like)},
          {"ones_like", ones_like(like)},
          {"full_like", full_like(like, 2)},
          {"rand_like", rand_like(like)},
          {"randn_like", randn_like(like)},
          {"uniform_like", uniform_like(like, 0, 2)},
          {"randint_like", randint_like(like, 0, 5)},
          {"bernoulli_like", bernoulli_like(like, 0.5)},
          {"normal", nn::init::normal({64}, 1, 2, {.device = device})},
          {"kaiming_normal", nn::init::kaiming_normal({8, 8}, {}, {.device = device})}};
      for (const auto& [name, x] : made) EXPECT_EQ(x.device(), device) << name;
      if (thorough()) {  // takes many kernels
        EXPECT_EQ(nn::init::orthogonal({8, 4}, {}, {.device = device}).device(), device);
      }
      expect_layers_on(device, device);
      expect_on(device, nn::Embedding(4, 4, {.padding_idx = 1, .device = device}));
    }
  }
}

TEST_F(Placements, LayersAreMadeWhereTensorsAre) {
  {
    const ExecutionContext context(options(Placement::force_gpu));
    expect_layers_on(test_device());
    expect_on(Device::cpu(), nn::BatchNorm2d(4, {.device = Device::cpu()}));
  }
  {
    const ExecutionContext context(options(Placement::force_cpu));
    expect_on(Device::cpu(), nn::LSTM(4, 4));
  }
  ExecutionOptions some = options(Placement::automatic);
  some.gpu_threshold = 1000;
  const ExecutionContext context(some);
  const nn::Linear layer(100, 100);
  EXPECT_EQ(layer.weight->device(), test_device());
  EXPECT_EQ(layer.bias->device(), Device::cpu());
}

// From the first step on only the batch moves.
TEST_F(Placements, LayersMadeUnderAPlacementNeverMove) {
  const ExecutionContext context(options(Placement::force_gpu));
  nn::Sequential model({nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 4)});
  optim::SGD sgd(model.parameters(), {.lr = 0.1});
  for (int i = 0; i < 2; ++i) {
    const Tensor x = host_values({4, 8});
    const Counters moved = counted([&] {
      sgd.zero_grad();
      model(x).square().mean().backward();
      sgd.step();
    });
    EXPECT_EQ(moved.bytes_to_device, 4u * 8 * 4) << i;
    EXPECT_EQ(moved.transfers, 1u) << i;
  }
}

// ---- Layers constructed before the placement began

// Runs steps of `loss` until nothing moves any more except the batch.
void expect_moved_once(nn::Module& module, const std::function<Tensor(const Tensor&)>& loss,
                       std::int64_t threshold = 1000) {
  optim::SGD sgd(module.parameters(), {.lr = 0.01});
  std::vector<std::string> messages;
  set_log_handler([&](LogLevel, std::string_view text) { messages.emplace_back(text); });
  const ExecutionContext context(
      {.placement = Placement::automatic, .gpu_threshold = threshold, .gpu = test_device()});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = host_values({32, 16, 16});
    reset_transfers();
    const Counters moved = counted([&] {
      sgd.zero_grad();
      loss(x).backward();
      sgd.step();
    });
    if (i < 2) continue;
    EXPECT_EQ(moved.transfers, 1u) << i << "\n" << transfer_report();  // the batch
    EXPECT_EQ(moved.bytes_to_device, 32u * 16 * 16 * 4) << i;
  }
  set_log_handler({});
  EXPECT_EQ(messages, std::vector<std::string>());
  expect_on(test_device(), module);
}

// The first operation is large enough for the device; the recurrence has parameters that are not.
TEST_F(Placements, RecurrentLayersOfBeforeMoveOnce) {
  nn::LSTM lstm(16, 16);
  expect_moved_once(lstm, [&](const Tensor& x) { return lstm(x).output.square().sum(); });
  if (!thorough()) return;
  nn::GRU gru(16, 16);
  expect_moved_once(gru, [&](const Tensor& x) { return gru(x).output.sum(); });
  nn::LSTM narrow(16, 16);
  expect_moved_once(narrow, [&](const Tensor& x) {
    const Autocast autocast(DType::bf16);
    return narrow(x).output.to(DType::f32).sum();
  });
}

// A placed layer learns the same as on the CPU.
TEST_F(Placements, RecurrentLayersOfBeforeLearnTheSame) {
  const auto trained = [](Placement placement) {
    manual_seed(7);
    nn::LSTM lstm(16, 16);
    optim::SGD sgd(lstm.parameters(), {.lr = 0.01});
    const ExecutionContext context(
        {.placement = placement, .gpu_threshold = 1000, .gpu = test_device()});
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      lstm(host_values({32, 16, 16})).output.square().sum().backward();
      sgd.step();
    }
    std::vector<std::vector<float>> values;
    for (const Tensor& parameter : lstm.parameters())
      values.push_back(parameter.to_vector<float>());
    return values;
  };
  const auto wanted = trained(Placement::as_written), placed = trained(Placement::automatic);
  ASSERT_EQ(placed.size(), wanted.size());
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    ASSERT_EQ(placed[p].size(), wanted[p].size());
    for (std::size_t i = 0; i < wanted[p].size(); ++i)
      ASSERT_NEAR(placed[p][i], wanted[p][i], 1e-4) << p << " " << i;
  }
}

// The gradient of a Function gets a parameter on the CPU together with results of the device.
TEST_F(Placements, GradientsOfFunctionsArePlacedToo) {
  const Function scaled({.name = "scaled",
                         .forward =
                             [](FunctionContext& context, const std::vector<Tensor>& inputs) {
                               context.save(inputs);
                               return std::vector<Tensor>{inputs[0] * inputs[1]};
                             },
                         .backward =
                             [](FunctionContext& context, const std::vector<Tensor>& gradients) {
                               const Tensor &x = context.saved()[0], &w = context.saved()[1];
                               return std::vector<Tensor>{w * gradients[0],
                                                          (x * gradients[0]).sum({0, 1})};
                             }});
  struct Scaled : nn::Module {
    nn::Parameter w = add_parameter("w", host_values({16}));
  } module;
  expect_moved_once(module, [&](const Tensor& x) {
    return scaled(std::vector<Tensor>{x, *module.w})[0].square().sum();
  });
}

// Sums of small parameters stay on the CPU and are recomputed where they are needed.
struct Shifted : nn::Module {
  nn::Parameter a = add_parameter("a", host_values({16}));
  nn::Parameter b = add_parameter("b", host_values({4, 4}));
  Tensor shift() const { return *a - (-b->reshape({16})); }
};

TEST_F(Placements, SmallSumsOfParametersMoveThem) {
  Shifted module;
  expect_moved_once(module, [&](const Tensor& x) { return (x * module.shift()).square().sum(); });
}

// A tensor that was recorded again elsewhere is still the one whose gradient is requested.
TEST_F(Placements, GradientsOfWhatWasRecordedAgain) {
  Shifted module;
  const ExecutionContext context(
      {.placement = Placement::automatic, .gpu_threshold = 1000, .gpu = test_device()});
  const Tensor x = host_values({32, 16, 16});
  const std::vector<float> wanted = x.sum({0, 1}).to_vector<float>();
  const auto expect_wanted = [&](const Tensor& gradient) {
    ASSERT_TRUE(gradient.defined());
    EXPECT_EQ(gradient.device(), Device::cpu());
    const std::vector<float> found = gradient.reshape({16}).to_vector<float>();
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-3) << i;
  };
  const Tensor view = module.a->reshape({1, 16}), sum = module.shift();
  EXPECT_EQ(view.device(), Device::cpu());
  EXPECT_EQ(sum.device(), Device::cpu());
  expect_wanted(grad((x * view).sum(), view));
  expect_wanted(grad((x * sum).sum(), sum));
  Tensor kept = module.shift();
  kept.retain_grad();
  int calls = 0;
  const Tensor hooked = module.shift();
  const auto handle = hooked.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 2;
  });
  ((x * kept) + (x * hooked)).sum().backward();
  expect_wanted(kept.grad());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(module.a->device(), test_device());
  const std::vector<float> whole = module.a->grad().to_vector<float>();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(whole[i], 3 * wanted[i], 1e-2) << i;
}

// A parameter may itself be a view or a conversion that was not evaluated yet.
TEST_F(Placements, ParametersThatAreViewsGetTheirGradients) {
  Tensor w = (host_values({4, 4}) * 2).reshape({16});
  w.set_requires_grad();
  const ExecutionContext context(
      {.placement = Placement::automatic, .gpu_threshold = 1000, .gpu = test_device()});
  (host_values({32, 16, 16}) * w).sum().backward();
  ASSERT_TRUE(w.grad().defined());
  EXPECT_EQ(w.grad().device(), test_device());
  EXPECT_EQ(w.device(), test_device());
}

// Views of values that the CPU computes: only the needed gradients are moved back.
TEST_F(Placements, GradientsComeBackWhereRulesNeedThem) {
  Tensor a = host_values({16}), b = host_values({16});
  a.set_requires_grad();
  b.set_requires_grad();
  const Tensor x = host_values({32, 16, 16});
  const auto loss = [&] {
    const Tensor small = a * b;
    return (x * small.reshape({1, 16}).expand({32, 16, 16})).sum() + small.sum();
  };
  loss().backward();
  const std::vector<float> wanted = a.grad().to_vector<float>();
  a.zero_grad();
  b.zero_grad();
  std::vector<std::string> messages;
  set_log_handler([&](LogLevel, std::string_view text) { messages.emplace_back(text); });
  const Counters moved = counted([&] {
    const ExecutionContext context(
        {.placement = Placement::automatic, .gpu_threshold = 1000, .gpu = test_device()});
    loss().backward();
  });
  set_log_handler({});
  EXPECT_EQ(messages, std::vector<std::string>());
  EXPECT_EQ(moved.bytes_to_host, 16u * 4);  // the gradient of `small`
  const std::vector<float> found = a.grad().to_vector<float>();
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-2) << i;
}

// ---- Batches, and memory of the program

// Three operations with a batch take one upload of its values and one of its labels.
TEST_F(Placements, BatchesMoveOnce) {
  constexpr std::int64_t kRows = 8, kBatch = 4;
  const Tensor x = host_values({kRows, 600});
  const Tensor y =
      from_vector(std::vector<std::int64_t>(kRows, 3), {kRows}, {.device = Device::cpu()});
  data::DataLoader loader(data::TensorDataset(x, y), {.batch_size = kBatch});
  const ExecutionContext context(options(Placement::force_gpu));
  int batches = 0;
  for (const auto& batch : loader) {
    ++batches;
    const Counters moved = counted([&] {
      const Tensor loss = (batch.x * 2).sum() + batch.x.sum() - (batch.x * batch.x).sum();
      loss.eval();
      (batch.y + batch.y * batch.y).eval();
    });
    EXPECT_EQ(moved.transfers, 2u);
    EXPECT_EQ(moved.bytes_to_device, static_cast<std::uint64_t>(kBatch * (600 * 4 + 8)));
  }
  EXPECT_EQ(batches, 2);
}

// The program may write to its memory between two uses; each use sees the current content.
TEST_F(Placements, MemoryOfTheProgramIsReadAtEachUse) {
  std::vector<float> values(1000, 1.0f);
  const Tensor x = from_blob(values.data(), {1000});
  const ExecutionContext context(options(Placement::force_gpu));
  EXPECT_EQ((x * 2).sum().item(), 2000);
  values.assign(1000, 3.0f);
  EXPECT_EQ((x * 2).sum().item(), 6000);
  // A copy belongs to the library and moves once.
  const Tensor copy = from_blob(values.data(), {1000}, {.copy = true});
  const Counters moved = counted([&] {
    (copy * 2).sum().eval();
    (copy * 3).sum().eval();
  });
  EXPECT_EQ(moved.transfers, 1u);
}

// ---- Memory

// Values that return from a device are in host memory once, for reads and for computation.
TEST_F(Placements, ValuesThatComeBackAreKeptOnce) {
  constexpr std::int64_t kCount = 1 << 18;
  Tensor there = host_values({kCount}).to(test_device()).eval();
  const std::vector<float> values = there.to_vector<float>();
  const std::uint64_t before = memory_stats(Device::cpu()).in_use;
  Tensor sum;
  const Counters moved = counted([&] {
    const ExecutionContext context(options(Placement::force_cpu));
    sum = there + 1;
  });
  EXPECT_EQ(moved.transfers, 0u);                                      // the value was already read
  EXPECT_LT(memory_stats(Device::cpu()).in_use, before + kCount * 2);  // no second copy
  // It outlives the device's tensor.
  there = Tensor();
  EXPECT_EQ(sum.device(), Device::cpu());
  const std::vector<float> more = sum.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); i += 1001) EXPECT_EQ(more[i], values[i] + 1) << i;
}

// Copies of the CPU's values are released before anything fails, and are made again when they are
// used.
TEST_F(Placements, CopiesMakeRoom) {
  constexpr std::int64_t kCount = 1 << 20;  // 4 MiB each
  empty_cache(test_device());
  const std::uint64_t before = memory_stats(test_device()).in_use;
  std::vector<Tensor> values;
  for (int i = 0; i < 4; ++i) values.push_back(host_values({kCount}, static_cast<float>(i)));
  const ExecutionContext context(options(Placement::force_gpu));
  std::vector<double> sums;
  for (const Tensor& each : values) sums.push_back((each * 2).sum().item());
  EXPECT_GE(memory_stats(test_device()).in_use, before + 4 * kCount * 4);  // the copies are kept
  empty_cache(test_device());
  constexpr std::uint64_t kSmallResults = std::uint64_t{2} << 20;  // a chunk of the pool
  set_memory_limit(test_device(),
                   memory_stats(test_device()).reserved + 2 * kCount * 4 + kSmallResults);
  // Three times the memory that is free without releasing copies.
  const auto make_large = [] {
    return ones({6 * kCount}, {.device = test_device()}).cumsum(0).eval();
  };
  Tensor large = make_large();
  EXPECT_LT(memory_stats(test_device()).in_use, before + 7 * kCount * 4);
  // Tensors that the program holds stay, and then there is no room.
  EXPECT_THROW(make_large(), OutOfMemory);
  large = Tensor();
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ((values[i] * 2).sum().item(), sums[i]) << i;  // moved again
  set_memory_limit(test_device(), 0);
}

TEST_F(Placements, CopiesMakeRoomWhileOthersUseThem) {
  constexpr std::int64_t kCount = 1 << 16;
  const Tensor shared = host_values({kCount});
  const double expected = (shared * shared).sum().item();
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int t = 0; t < 3; ++t) {
    users.emplace_back([&] {
      const ExecutionContext context(options(Placement::force_gpu));
      while (!done) {
        const Tensor own = shared + 0;
        if (std::abs((shared * shared).sum().item() - expected) > 1e-3 * expected) ++wrong;
      }
    });
  }
  for (int i = 0; i < 300; ++i) graph::give_up_replicas(device_entry(test_device()));
  done = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace volta
