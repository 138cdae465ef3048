// Small models that nothing has evaluated yet, for tests of a failing first step: their initial
// values are pending in the failing batch. There are layers and optimizers of every kind.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/fault_training.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::testing_faults {

inline TensorOptions on_test_device() { return {.device = test_device()}; }

// Numbers that follow from a seed, without the library's generator.
inline std::vector<float> noise(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 16 & 1023) / 512.0f - 1.0f;
  }
  return values;
}
inline Tensor noise_of(const Shape& shape, std::uint32_t seed) {
  return from_vector(noise(shape.numel(), seed), shape, on_test_device());
}
inline Tensor labels(std::int64_t count, std::int64_t classes) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = i * 7 % classes;
  return from_vector(values, on_test_device());
}

// A model with its optimizer.
struct Fresh {
  std::unique_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::function<Tensor(std::int64_t rows)> loss_of;

  Tensor step(std::int64_t rows) {
    optimizer->zero_grad();
    Tensor loss = loss_of(rows);
    loss.backward();
    optimizer->step();
    return loss;
  }
  Values values() const {
    Values values;
    for (const auto& [name, tensor] : model->state_dict()) values[name] = values_of(tensor);
    for (const auto& [name, tensor] : optimizer->state_dict())
      values["optimizer." + name] = values_of(tensor);
    return values;
  }
};

struct LinearNet : nn::Module {
  nn::Linear a{6, 8, {.device = test_device()}}, b{8, 3, {.device = test_device()}};
  LinearNet() {
    add("a", a);
    add("b", b);
  }
};
struct ConvNet : nn::Module {
  nn::Conv2d conv{1, 4, 3, {.device = test_device()}};
  nn::BatchNorm2d norm{4, {.device = test_device()}};
  nn::Linear head{4 * 4 * 4, 3, {.device = test_device()}};
  ConvNet() {
    add("conv", conv);
    add("norm", norm);
    add("head", head);
  }
};
struct WordNet : nn::Module {
  nn::Embedding words{12, 5, {.device = test_device()}};
  nn::LSTM lstm{5, 6, {.device = test_device()}};
  nn::Linear head{6, 3, {.device = test_device()}};
  WordNet() {
    add("words", words);
    add("lstm", lstm);
    add("head", head);
  }
};

template <class Net, class Loss>
Fresh fresh(std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)> optimizer,
            Loss loss) {
  manual_seed(7);
  auto net = std::make_unique<Net>();
  Net* raw = net.get();
  Fresh made{std::move(net), nullptr, [raw, loss](std::int64_t rows) { return loss(*raw, rows); }};
  made.optimizer = optimizer(made.model->parameters());
  return made;
}

// Uploads come first, because a layer that was called has counted its batch.
inline Tensor linear_loss(LinearNet& net, std::int64_t rows) {
  return mse_loss(net.b(tanh(net.a(noise_of({rows, 6}, 1)))), noise_of({rows, 3}, 2));
}
inline Tensor conv_loss(ConvNet& net, std::int64_t rows) {
  const Tensor images = noise_of({rows, 1, 6, 6}, 3), wanted = labels(rows, 3);
  return cross_entropy(net.head(relu(net.norm(net.conv(images))).flatten(1)), wanted);
}
inline Tensor word_loss(WordNet& net, std::int64_t rows) {
  const Tensor ids = labels(rows * 4, 12).reshape({4, rows}), wanted = labels(rows, 3);
  const Tensor states = net.lstm(net.words(ids)).output;
  return cross_entropy(net.head(states.narrow(0, 3, 1).reshape({rows, 6})), wanted);
}

// All models by name.
inline std::map<std::string, std::function<Fresh()>> fresh_models() {
  const auto sgd = [](optim::SGDOptions options) {
    return [options](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
      return std::make_unique<optim::SGD>(std::move(p), options);
    };
  };
  const auto adam = [](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::Adam>(std::move(p), optim::AdamOptions{.lr = 0.01});
  };
  // Muon gets matrices only; the other parameters stay unchanged.
  const auto muon = [](const std::vector<Tensor>& p) -> std::unique_ptr<optim::Optimizer> {
    std::vector<Tensor> matrices;
    for (const Tensor& tensor : p) {
      if (tensor.rank() == 2) matrices.push_back(tensor);
    }
    return std::make_unique<optim::Muon>(std::move(matrices), optim::MuonOptions{.lr = 0.01});
  };
  const auto momentum = sgd({.lr = 0.1, .momentum = 0.9});
  const auto dampened = sgd({.lr = 0.1, .momentum = 0.9, .dampening = 0.25});
  return {
      {"Linear, SGD", [=] { return fresh<LinearNet>(momentum, linear_loss); }},
      {"Linear, dampened SGD", [=] { return fresh<LinearNet>(dampened, linear_loss); }},
      {"Linear, Muon", [=] { return fresh<LinearNet>(muon, linear_loss); }},
      {"Conv, Adam", [=] { return fresh<ConvNet>(adam, conv_loss); }},
      {"Conv, dampened SGD", [=] { return fresh<ConvNet>(dampened, conv_loss); }},
      {"LSTM, Adam", [=] { return fresh<WordNet>(adam, word_loss); }},
      {"LSTM, Muon", [=] { return fresh<WordNet>(muon, word_loss); }},
  };
}

}  // namespace volta::testing_faults
