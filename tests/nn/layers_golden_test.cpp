// Every layer against PyTorch (tests/golden/layers.py): names and shapes of its state, its output,
// the gradients of its input and parameters, and its buffers afterwards, in training and in eval
// mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ops/conformance/conformance.h"
#include "support/paths.h"
#include "support/test_device.h"
#include "volta/nn/batch_norm.h"
#include "volta/nn/conv.h"
#include "volta/nn/norm.h"
#include "volta/nn/pooling.h"
#include "volta/nn/shape_layers.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Made = std::shared_ptr<nn::Module>;

struct At {
  DType dtype;
  Device device;
};
struct Case {
  std::string name;
  std::function<Made(At)> make;
};
using Cases = std::vector<Case>;

template <class Layer>
Made made(const Layer& layer) {
  return std::make_shared<Layer>(layer);
}

Cases convolutions() {
  using nn::Padding, nn::PaddingMode;
  return {
      {"conv1d/plain",
       [](At at) { return made(nn::Conv1d(3, 4, 3, {.dtype = at.dtype, .device = at.device})); }},
      {"conv1d/options",
       [](At at) {
         return made(nn::Conv1d(4, 6, 3,
                                {.stride = 2,
                                 .padding = 2,
                                 .dilation = 2,
                                 .groups = 2,
                                 .bias = false,
                                 .dtype = at.dtype,
                                 .device = at.device}));
       }},
      {"conv1d/same",
       [](At at) {
         return made(
             nn::Conv1d(3, 4, 4, {.padding = Padding::same, .dilation = 3, .device = at.device}));
       }},
      {"conv1d/valid",
       [](At at) {
         return made(nn::Conv1d(3, 4, 4, {.padding = Padding::valid, .device = at.device}));
       }},
      {"conv1d/reflect",
       [](At at) {
         return made(nn::Conv1d(
             3, 4, 3, {.padding = 2, .padding_mode = PaddingMode::reflect, .device = at.device}));
       }},
      {"conv1d/circular",
       [](At at) {
         return made(nn::Conv1d(3, 4, 4,
                                {.padding = Padding::same,
                                 .padding_mode = PaddingMode::circular,
                                 .device = at.device}));
       }},
      {"conv1d/unbatched", [](At at) { return made(nn::Conv1d(3, 4, 3, {.device = at.device})); }},

      {"conv2d/plain",
       [](At at) {
         return made(nn::Conv2d(3, 4, 3, {.padding = 1, .dtype = at.dtype, .device = at.device}));
       }},
      {"conv2d/pairs",
       [](At at) {
         return made(nn::Conv2d(
             3, 4, {3, 2},
             {.stride = {2, 1}, .padding = {2, 1}, .dilation = {1, 2}, .device = at.device}));
       }},
      {"conv2d/groups",
       [](At at) {
         return made(
             nn::Conv2d(4, 6, 3, {.stride = 2, .groups = 2, .bias = false, .device = at.device}));
       }},
      {"conv2d/depthwise",
       [](At at) {
         return made(nn::Conv2d(3, 6, 3, {.padding = 1, .groups = 3, .device = at.device}));
       }},
      {"conv2d/same",
       [](At at) {
         return made(nn::Conv2d(
             3, 4, {3, 4}, {.padding = Padding::same, .dilation = {2, 1}, .device = at.device}));
       }},
      {"conv2d/reflect",
       [](At at) {
         return made(nn::Conv2d(
             3, 4, 3,
             {.padding = {2, 1}, .padding_mode = PaddingMode::reflect, .device = at.device}));
       }},
      {"conv2d/replicate",
       [](At at) {
         return made(nn::Conv2d(3, 4, {2, 3},
                                {.padding = Padding::same,
                                 .padding_mode = PaddingMode::replicate,
                                 .device = at.device}));
       }},
      {"conv2d/circular",
       [](At at) {
         return made(nn::Conv2d(3, 4, 3,
                                {.stride = 2,
                                 .padding = {1, 2},
                                 .padding_mode = PaddingMode::circular,
                                 .device = at.device}));
       }},
      {"conv2d/unbatched",
       [](At at) { return made(nn::Conv2d(3, 4, 3, {.padding = 1, .device = at.device})); }},

      {"conv_transpose1d/plain",
       [](At at) { return made(nn::ConvTranspose1d(3, 4, 3, {.device = at.device})); }},
      {"conv_transpose1d/options",
       [](At at) {
         return made(nn::ConvTranspose1d(4, 6, 3,
                                         {.stride = 3,
                                          .padding = 1,
                                          .output_padding = 2,
                                          .groups = 2,
                                          .bias = false,
                                          .dilation = 2,
                                          .dtype = at.dtype,
                                          .device = at.device}));
       }},
      {"conv_transpose1d/unbatched",
       [](At at) { return made(nn::ConvTranspose1d(3, 4, 3, {.device = at.device})); }},
      {"conv_transpose2d/plain",
       [](At at) {
         return made(nn::ConvTranspose2d(3, 4, 3, {.dtype = at.dtype, .device = at.device}));
       }},
      {"conv_transpose2d/larger",
       [](At at) {
         return made(
             nn::ConvTranspose2d(3, 4, 4, {.stride = 2, .padding = 1, .device = at.device}));
       }},
      {"conv_transpose2d/options",
       [](At at) {
         return made(nn::ConvTranspose2d(4, 6, {3, 2},
                                         {.stride = {2, 3},
                                          .padding = {1, 0},
                                          .output_padding = {1, 2},
                                          .groups = 2,
                                          .bias = false,
                                          .dilation = {1, 2},
                                          .device = at.device}));
       }},
      {"conv_transpose2d/unbatched",
       [](At at) {
         return made(nn::ConvTranspose2d(3, 4, 3, {.stride = 2, .device = at.device}));
       }},
  };
}

Cases pools() {
  return {
      {"max_pool1d/plain", [](At) { return made(nn::MaxPool1d(2)); }},
      {"max_pool1d/options",
       [](At) {
         return made(
             nn::MaxPool1d(3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true}));
       }},
      {"max_pool2d/plain", [](At) { return made(nn::MaxPool2d(2)); }},
      {"max_pool2d/overlapping",
       [](At) { return made(nn::MaxPool2d(3, {.stride = 2, .padding = 1})); }},
      {"max_pool2d/pairs",
       [](At) {
         return made(
             nn::MaxPool2d({3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}));
       }},
      {"max_pool2d/ceil", [](At) { return made(nn::MaxPool2d(2, {.ceil_mode = true})); }},
      {"max_pool2d/unbatched", [](At) { return made(nn::MaxPool2d(2)); }},
      {"avg_pool1d/plain", [](At) { return made(nn::AvgPool1d(2)); }},
      {"avg_pool1d/options",
       [](At) {
         return made(nn::AvgPool1d(
             3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}));
       }},
      {"avg_pool2d/plain", [](At) { return made(nn::AvgPool2d(2)); }},
      {"avg_pool2d/padded", [](At) { return made(nn::AvgPool2d(3, {.stride = 2, .padding = 1})); }},
      {"avg_pool2d/pairs",
       [](At) {
         return made(nn::AvgPool2d(
             {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .count_include_pad = false}));
       }},
      {"avg_pool2d/ceil", [](At) { return made(nn::AvgPool2d(2, {.ceil_mode = true})); }},
      {"avg_pool2d/unbatched", [](At) { return made(nn::AvgPool2d(2)); }},
      {"adaptive_avg_pool1d/plain", [](At) { return made(nn::AdaptiveAvgPool1d(4)); }},
      {"adaptive_avg_pool2d/one", [](At) { return made(nn::AdaptiveAvgPool2d(1)); }},
      {"adaptive_avg_pool2d/pair", [](At) { return made(nn::AdaptiveAvgPool2d({3, 4})); }},
      {"adaptive_avg_pool2d/width", [](At) { return made(nn::AdaptiveAvgPool2d({3, 0})); }},
  };
}

Cases norms() {
  return {
      {"batch_norm1d/plain",
       [](At at) { return made(nn::BatchNorm1d(4, {.dtype = at.dtype, .device = at.device})); }},
      {"batch_norm1d/length",
       [](At at) { return made(nn::BatchNorm1d(4, {.device = at.device})); }},
      {"batch_norm2d/plain",
       [](At at) { return made(nn::BatchNorm2d(4, {.dtype = at.dtype, .device = at.device})); }},
      {"batch_norm2d/options",
       [](At at) {
         return made(nn::BatchNorm2d(4, {.eps = 0.1, .momentum = 0.3, .device = at.device}));
       }},
      {"batch_norm2d/cumulative",
       [](At at) {
         return made(nn::BatchNorm2d(4, {.momentum = std::nullopt, .device = at.device}));
       }},
      {"batch_norm2d/not_affine",
       [](At at) { return made(nn::BatchNorm2d(4, {.affine = false, .device = at.device})); }},
      {"batch_norm2d/untracked",
       [](At at) {
         return made(nn::BatchNorm2d(4, {.track_running_stats = false, .device = at.device}));
       }},
      {"batch_norm2d/neither",
       [](At) {
         return made(nn::BatchNorm2d(4, {.affine = false, .track_running_stats = false}));
       }},
      {"layer_norm/plain",
       [](At at) { return made(nn::LayerNorm(6, {.dtype = at.dtype, .device = at.device})); }},
      {"layer_norm/axes",
       [](At at) { return made(nn::LayerNorm({3, 4}, {.eps = 0.1, .device = at.device})); }},
      {"layer_norm/no_bias",
       [](At at) { return made(nn::LayerNorm(6, {.bias = false, .device = at.device})); }},
      {"layer_norm/not_affine",
       [](At) { return made(nn::LayerNorm(6, {.elementwise_affine = false})); }},
      {"rms_norm/plain",
       [](At at) { return made(nn::RMSNorm(6, {.dtype = at.dtype, .device = at.device})); }},
      {"rms_norm/axes",
       [](At at) { return made(nn::RMSNorm({3, 4}, {.eps = 0.1, .device = at.device})); }},
      {"rms_norm/not_affine",
       [](At) { return made(nn::RMSNorm(6, {.elementwise_affine = false})); }},
      {"rms_norm/small", [](At at) { return made(nn::RMSNorm(6, {.device = at.device})); }},
      {"group_norm/plain",
       [](At at) { return made(nn::GroupNorm(2, 4, {.dtype = at.dtype, .device = at.device})); }},
      {"group_norm/one",
       [](At at) { return made(nn::GroupNorm(1, 4, {.eps = 0.1, .device = at.device})); }},
      {"group_norm/each", [](At) { return made(nn::GroupNorm(4, 4, {.affine = false})); }},
      {"instance_norm2d/plain", [](At) { return made(nn::InstanceNorm2d(4)); }},
      {"instance_norm2d/affine",
       [](At at) {
         return made(nn::InstanceNorm2d(4, {.eps = 0.1, .affine = true, .device = at.device}));
       }},
      {"instance_norm2d/unbatched",
       [](At at) { return made(nn::InstanceNorm2d(4, {.affine = true, .device = at.device})); }},
      {"instance_norm2d/tracked",
       [](At at) {
         return made(nn::InstanceNorm2d(4, {.track_running_stats = true, .device = at.device}));
       }},
      {"instance_norm2d/both",
       [](At at) {
         return made(nn::InstanceNorm2d(4, {.eps = 0.1,
                                            .momentum = 0.3,
                                            .affine = true,
                                            .track_running_stats = true,
                                            .device = at.device}));
       }},
  };
}

Cases others() {
  return {
      {"linear/plain",
       [](At at) { return made(nn::Linear(5, 4, {.dtype = at.dtype, .device = at.device})); }},
      {"linear/no_bias",
       [](At at) { return made(nn::Linear(5, 4, {.bias = false, .device = at.device})); }},
      {"embedding/plain",
       [](At at) { return made(nn::Embedding(7, 3, {.dtype = at.dtype, .device = at.device})); }},
      {"dropout/none", [](At) { return made(nn::Dropout(0)); }},
      {"dropout/eval", [](At) { return made(nn::Dropout(0.4)); }},
      {"dropout/all", [](At) { return made(nn::Dropout(1)); }},
      {"dropout2d/none", [](At) { return made(nn::Dropout2d(0)); }},
      {"dropout2d/eval", [](At) { return made(nn::Dropout2d(0.4)); }},
      {"dropout2d/all", [](At) { return made(nn::Dropout2d(1)); }},
      {"identity/plain", [](At) { return made(nn::Identity()); }},
      {"flatten/plain", [](At) { return made(nn::Flatten()); }},
      {"flatten/some", [](At) { return made(nn::Flatten(0, -2)); }},
      {"unflatten/plain", [](At) { return made(nn::Unflatten(1, {2, 3})); }},
      {"pixel_shuffle/plain", [](At) { return made(nn::PixelShuffle(2)); }},
      {"pixel_unshuffle/plain", [](At) { return made(nn::PixelUnshuffle(2)); }},
      {"upsample/nearest", [](At) { return made(nn::Upsample({.scale = 2})); }},
      {"upsample/size", [](At) { return made(nn::Upsample({.size = {7, 6}})); }},
      {"upsample/bilinear",
       [](At) {
         return made(nn::Upsample({.scale = {2.0, 1.5}, .mode = InterpolateMode::bilinear}));
       }},
      {"upsample/aligned",
       [](At) {
         return made(nn::Upsample(
             {.size = {7, 6}, .mode = InterpolateMode::bilinear, .align_corners = true}));
       }},
  };
}

Cases activations() {
  return {
      {"relu/plain", [](At) { return made(nn::ReLU()); }},
      {"relu6/plain", [](At) { return made(nn::ReLU6()); }},
      {"leaky_relu/plain", [](At) { return made(nn::LeakyReLU()); }},
      {"leaky_relu/slope", [](At) { return made(nn::LeakyReLU(0.2)); }},
      {"prelu/plain",
       [](At at) { return made(nn::PReLU(1, {.dtype = at.dtype, .device = at.device})); }},
      {"prelu/channels", [](At at) { return made(nn::PReLU(3, {.device = at.device})); }},
      {"elu/plain", [](At) { return made(nn::ELU()); }},
      {"elu/alpha", [](At) { return made(nn::ELU(0.3)); }},
      {"selu/plain", [](At) { return made(nn::SELU()); }},
      {"gelu/plain", [](At) { return made(nn::GELU()); }},
      {"gelu/tanh", [](At) { return made(nn::GELU({.tanh = true})); }},
      {"silu/plain", [](At) { return made(nn::SiLU()); }},
      {"mish/plain", [](At) { return made(nn::Mish()); }},
      {"softplus/plain", [](At) { return made(nn::Softplus()); }},
      {"softplus/options", [](At) { return made(nn::Softplus(2, 3)); }},
      {"softsign/plain", [](At) { return made(nn::Softsign()); }},
      {"sigmoid/plain", [](At) { return made(nn::Sigmoid()); }},
      {"log_sigmoid/plain", [](At) { return made(nn::LogSigmoid()); }},
      {"hardsigmoid/plain", [](At) { return made(nn::Hardsigmoid()); }},
      {"hardswish/plain", [](At) { return made(nn::Hardswish()); }},
      {"tanh/plain", [](At) { return made(nn::Tanh()); }},
      {"hardtanh/plain", [](At) { return made(nn::Hardtanh()); }},
      {"hardtanh/bounds", [](At) { return made(nn::Hardtanh(-0.5, 2.5)); }},
      {"softmax/plain", [](At) { return made(nn::Softmax()); }},
      {"softmax/channels", [](At) { return made(nn::Softmax(1)); }},
      {"log_softmax/plain", [](At) { return made(nn::LogSoftmax()); }},
      {"glu/plain", [](At) { return made(nn::GLU()); }},
  };
}

const StateDict& golden() {
  static const StateDict values =
      load(paths::golden_dir() + "/layers.safetensors", {.device = test_device()});
  return values;
}

// The names of the cases in the file: the part before each "/out".
const std::vector<std::string>& golden_cases() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const auto& [key, value] : golden())
      if (key.ends_with("/out")) found.push_back(key.substr(0, key.size() - 4));
    return found;
  }();
  return names;
}

// The values under a prefix, by the rest of their names, in order.
StateDict under(const std::string& prefix) {
  StateDict found;
  for (const auto& [key, value] : golden())
    if (key.starts_with(prefix)) found.add(key.substr(prefix.size()), value.detach());
  return found;
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, value] : state) names.push_back(name);
  return names;
}

void expect_close(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(actual.defined()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  const std::vector<double> a = actual.detach().to_vector<double>(),
                            e = expected.to_vector<double>();
  double largest = 0;
  for (const double value : e) largest = std::max(largest, std::fabs(value));
  const double tolerance = expected.dtype() == DType::bf16 ? 1e-2
                           : is_floating(expected.dtype()) ? 1e-5
                                                           : 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], e[i], tolerance * largest) << what << " at " << i;
}

void check_in_mode(const Case& c, const std::string& name, bool training) {
  const Tensor& out = golden().at(name + "/out");
  const Made module = c.make({out.dtype(), test_device()});
  const StateDict state = under(name + "/state/");
  EXPECT_EQ(names_of(module->state_dict()), names_of(state));
  module->load_state_dict(state);  // throws if names or shapes differ
  module->train(training);
  if (golden().contains(name + "/before")) (*module)(golden().at(name + "/before"));
  Tensor x = golden().at(name + "/x").detach();
  if (is_floating(x.dtype())) x.set_requires_grad();
  const Tensor y = (*module)(x);
  y.backward(golden().at(name + "/g"));
  expect_close(y, out, "the output");
  if (x.requires_grad()) expect_close(x.grad(), golden().at(name + "/grad/x"), "the gradient of x");
  for (const auto& [key, parameter] : module->named_parameters())
    expect_close(parameter.grad(), golden().at(name + "/grad/" + key), "the gradient of " + key);
  const StateDict after = under(name + "/after/");
  EXPECT_EQ(module->named_buffers().size(), after.size());
  for (const auto& [key, buffer] : module->named_buffers())
    expect_close(buffer, after.at(key), key + " afterwards");
}

// If compiling a kernel takes long, only cases whose kernels no test of an operation has.
bool runs_here(const std::string& name) {
  static const std::set<std::string> always{"batch_norm2d/cumulative/train",
                                            "instance_norm2d/both/train", "rms_norm/plain",
                                            "relu6/plain"};
  return thorough() || always.contains(name);
}

// The name of a case without dtype and mode.
std::string plain(std::string name) {
  for (const std::string mode : {"/train", "/eval"})
    if (name.ends_with(mode) && std::count(name.begin(), name.end(), '/') > 1)
      name.resize(name.size() - mode.size());
  if (name.ends_with("_bf16")) name.resize(name.size() - 5);
  return name;
}

void check(const Cases& cases) {
  for (const Case& c : cases) {
    int found = 0;
    for (const std::string& name : golden_cases()) {
      if (plain(name) != c.name) continue;
      ++found;
      if (!runs_here(name)) continue;
      for (const bool training : {true, false}) {
        if (name.ends_with(training ? "/eval" : "/train")) continue;
        SCOPED_TRACE(name + (training ? ", training" : ", in eval mode"));
        check_in_mode(c, name, training);
      }
    }
    EXPECT_GT(found, 0) << c.name;
  }
}

TEST(GoldenLayers, Convolutions) { check(convolutions()); }
TEST(GoldenLayers, Pools) { check(pools()); }
TEST(GoldenLayers, Norms) { check(norms()); }
TEST(GoldenLayers, Others) { check(others()); }
TEST(GoldenLayers, Activations) { check(activations()); }

TEST(GoldenLayers, EveryCaseOfTheFileIsChecked) {
  std::set<std::string> known;
  for (const Cases& cases : {convolutions(), pools(), norms(), others(), activations()})
    for (const Case& c : cases) EXPECT_TRUE(known.insert(c.name).second) << c.name << " twice";
  for (const std::string& name : golden_cases()) EXPECT_TRUE(known.contains(plain(name))) << name;
  EXPECT_GT(golden_cases().size(), 140u);
}

}  // namespace
}  // namespace volta
