// The steps of volta_changing: each takes a size (or the seed of a shape) and trains or evaluates
// once with it.
#pragma once

#include <volta/volta.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace bench {

using Step = std::function<void(std::int64_t)>;

// A training step of a model with Adam; `loss` computes the loss at a size.
template <class Model, class Loss>
Step training(std::shared_ptr<Model> model, volta::Device device, const Loss& loss) {
  model->to(device);
  auto optimizer = std::make_shared<volta::optim::Adam>(model->parameters(),
                                                        volta::optim::AdamOptions{.lr = 1e-3});
  return [=](std::int64_t size) {
    optimizer->zero_grad();
    loss(*model, size).backward();
    optimizer->step();
  };
}

inline volta::Tensor labels(std::int64_t count, volta::Device device) {
  return volta::randint(0, 10, {count}, {.device = device});
}

inline Step mlp(volta::Device device) {
  using namespace volta;
  auto model = std::make_shared<nn::Sequential>(nn::Sequential(
      {nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(), nn::Linear(256, 10)}));
  return training(model, device, [=](nn::Sequential& network, std::int64_t batch) {
    const Tensor x = rand({batch, 784}, {.device = device});
    return cross_entropy(network(x), labels(batch, device));
  });
}

inline Step cnn(volta::Device device) {
  using namespace volta;
  auto model = std::make_shared<nn::Sequential>(nn::Sequential(
      {nn::Conv2d(1, 8, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(8, 16, 3),
       nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(576, 10)}));
  return training(model, device, [=](nn::Sequential& network, std::int64_t batch) {
    const Tensor x = rand({batch, 1, 28, 28}, {.device = device});
    return cross_entropy(network(x), labels(batch, device));
  });
}

// Images of one size by another, averaged before the last layer.
inline Step image_cnn(volta::Device device) {
  using namespace volta;
  struct Network : nn::Module {
    nn::Sequential features{
        nn::Conv2d(3, 8, 3, {.padding = 1}),  nn::ReLU(),          nn::MaxPool2d(2),
        nn::Conv2d(8, 16, 3, {.padding = 1}), nn::BatchNorm2d(16), nn::ReLU()};
    nn::Linear head{16, 10};
    Network() {
      add("features", features);
      add("head", head);
    }
    Tensor forward(const Tensor& images) override { return head(features(images).mean({2, 3})); }
  };
  return training(std::make_shared<Network>(), device, [=](Network& network, std::int64_t size) {
    constexpr std::int64_t kBatch = 8;
    const Tensor images = rand({kBatch, 3, size, size + size / 3}, {.device = device});
    return cross_entropy(network(images), labels(kBatch, device));
  });
}

struct TransformerSize {
  int layers;
  std::int64_t width = 64, batch = 2, words = 96;
  bool in_bf16 = false;  // by autocast
};
inline Step transformer(volta::Device device, const TransformerSize& of) {
  using namespace volta;
  struct Network : nn::Module {
    nn::Embedding words;
    std::vector<nn::TransformerBlock> blocks;
    nn::Linear head;
    explicit Network(const TransformerSize& of)
        : words(of.words, of.width), head(of.width, of.words) {
      add("words", words);
      for (int n = 0; n < of.layers; ++n)
        blocks.emplace_back(of.width, 4, nn::TransformerBlockOptions{.causal = true});
      for (int n = 0; n < of.layers; ++n)
        add("block" + std::to_string(n), blocks[static_cast<std::size_t>(n)]);
      add("head", head);
    }
    Tensor forward(const Tensor& ids) override {
      Tensor x = words(ids);
      for (nn::TransformerBlock& block : blocks) x = block(x);
      return head(x);
    }
  };
  return training(std::make_shared<Network>(of), device,
                  [=](Network& network, std::int64_t length) {
                    const Tensor ids = randint(0, of.words, {of.batch, length}, {.device = device});
                    const Autocast cast(of.in_bf16 ? DType::bf16 : DType::f32);
                    const Tensor logits = network(ids);
                    return cross_entropy(logits.reshape({of.batch * length, of.words}),
                                         ids.reshape({of.batch * length}));
                  });
}

inline Step lstm(volta::Device device) {
  using namespace volta;
  constexpr std::int64_t kBatch = 4, kWidth = 64;
  auto model = std::make_shared<nn::LSTM>(kWidth, kWidth, nn::LSTMOptions{.num_layers = 2});
  return training(model, device, [=](nn::LSTM& network, std::int64_t length) {
    const Tensor x = rand({length, kBatch, kWidth}, {.device = device});
    return network(x).output.square().mean();
  });
}

// Generation with keys and values that grow by one.
inline Step attention(volta::Device device) {
  using namespace volta;
  constexpr std::int64_t kWidth = 64;
  const Tensor keys = rand({512, kWidth}, {.device = device});
  const Tensor query = rand({1, kWidth}, {.device = device});
  return [=](std::int64_t length) {
    const NoGrad off;
    const Tensor seen = keys.narrow(0, 0, length);
    matmul(softmax(matmul(query, seen.transpose(0, 1)), 1), seen).eval();
  };
}

// A search that begins with 16 beams and loses up to two in each of its steps until none is left:
// both the beams and the words so far change from step to step, and each step is evaluated, because
// searches look for the ends of sentences.
inline Step beam_search(volta::Device device) {
  using namespace volta;
  constexpr std::int64_t kWidth = 64, kWords = 96, kBeams = 16;
  auto words = std::make_shared<nn::Embedding>(kWords, kWidth);
  auto head = std::make_shared<nn::Linear>(kWidth, kWords);
  words->to(device);
  head->to(device);
  return [=](std::int64_t seed) {
    const NoGrad off;
    std::mt19937_64 draw(static_cast<std::uint64_t>(seed));
    Tensor scores = zeros({1}, {.device = device});
    Tensor text = zeros({1, 1}, {.dtype = DType::i64, .device = device});
    for (std::int64_t beams = kBeams; beams > 0; beams -= static_cast<std::int64_t>(draw() % 3)) {
      const Tensor state = (*words)(text).mean(1);
      const Tensor all = log_softmax((*head)(state), 1) + scores.unsqueeze(1);
      const Sorted best = topk(all.reshape({all.numel()}), beams);
      const Tensor word = mod(best.indices, kWords);
      const Tensor from = floor_div(best.indices, kWords).to(DType::i64);
      text = concat({index_select(text, 0, from), word.unsqueeze(1)}, 1);
      scores = best.values;
      text.eval();
    }
  };
}

// A network whose shape is a random binary tree, as of a sentence: every seed is another graph.
inline Step random_tree(volta::Device device) {
  using namespace volta;
  static constexpr std::int64_t kWidth = 32;
  struct Network : nn::Module {
    nn::Linear join{2 * kWidth, kWidth};
    nn::Linear head{kWidth, 10};
    Network() {
      add("join", join);
      add("head", head);
    }
    Tensor forward(const Tensor& pair) override { return tanh(join(pair)); }
  };
  return training(std::make_shared<Network>(), device, [=](Network& network, std::int64_t seed) {
    std::mt19937_64 draw(static_cast<std::uint64_t>(seed));
    const std::int64_t leaves = 6 + static_cast<std::int64_t>(draw() % 10);
    const Tensor words = rand({leaves, kWidth}, {.device = device});
    std::vector<Tensor> parts;
    for (std::int64_t n = 0; n < leaves; ++n) parts.push_back(words.narrow(0, n, 1));
    while (parts.size() > 1) {
      const std::size_t at = draw() % (parts.size() - 1);
      parts[at] = network(concat({parts[at], parts[at + 1]}, 1));
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return cross_entropy(network.head(parts.front()), labels(1, device));
  });
}

// Stochastic depth: a training step leaves out residual blocks at random, so hardly any two steps
// record the same operations. `depth` says for each
// branch whether it takes part.
using DepthStep = std::function<void(const std::vector<bool>& depth)>;

inline DepthStep stochastic_depth(volta::Device device, int layers) {
  constexpr std::int64_t kWidth = 64, kBatch = 2, kLength = 64, kWords = 96;
  struct Network {
    volta::nn::Embedding words{kWords, kWidth};
    std::vector<volta::nn::LayerNorm> norms;
    std::vector<volta::nn::MultiheadAttention> attentions;
    std::vector<volta::nn::Sequential> layers;
    volta::nn::Linear head{kWidth, kWords};
    std::unique_ptr<volta::optim::Adam> optimizer;
  };
  auto network = std::make_shared<Network>();
  std::vector<volta::Tensor> parameters;
  const auto add = [&](volta::nn::Module& module) {
    module.to(device);
    for (const volta::Tensor& parameter : module.parameters()) parameters.push_back(parameter);
  };
  add(network->words);
  for (int n = 0; n < layers; ++n) {
    for (int k = 0; k < 2; ++k) {
      network->norms.emplace_back(kWidth);
      add(network->norms.back());
    }
    network->attentions.emplace_back(kWidth, 4);
    add(network->attentions.back());
    network->layers.push_back(
        volta::nn::Sequential({volta::nn::Linear(kWidth, 4 * kWidth), volta::nn::GELU(),
                               volta::nn::Linear(4 * kWidth, kWidth)}));
    add(network->layers.back());
  }
  add(network->head);
  network->optimizer =
      std::make_unique<volta::optim::Adam>(parameters, volta::optim::AdamOptions{.lr = 1e-3});
  return [=](const std::vector<bool>& depth) {
    const volta::Tensor ids = volta::randint(0, kWords, {kBatch, kLength}, {.device = device});
    network->optimizer->zero_grad();
    volta::Tensor x = network->words(ids);
    for (std::size_t n = 0; n < network->attentions.size(); ++n) {
      if (depth[2 * n]) {
        const volta::Tensor y = network->norms[2 * n](x);
        x = x + network->attentions[n](y, y, y);
      }
      if (depth[2 * n + 1]) x = x + network->layers[n](network->norms[2 * n + 1](x));
    }
    volta::cross_entropy(network->head(x).reshape({kBatch * kLength, kWords}),
                         ids.reshape({kBatch * kLength}))
        .backward();
    network->optimizer->step();
  };
}

}  // namespace bench
