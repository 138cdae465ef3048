// Graphs of any size for measuring and testing the cost of planning. Each graph is one evaluation
// whose number of recorded nodes grows with its size.
#pragma once

#include <volta/volta.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace bench {

// A graph, with the tensors that its evaluation reads.
struct PlannedGraph {
  virtual ~PlannedGraph() = default;
  // Records the graph. The returned tensors are held while it is evaluated.
  virtual std::vector<volta::Tensor> record() = 0;
};

// A chain of operations.
struct Chain : PlannedGraph {
  explicit Chain(int size) : size(size) {}
  std::vector<volta::Tensor> record() override {
    volta::Tensor h = x;
    for (int i = 0; i < size; ++i) h = i % 3 == 2 ? volta::tanh(h) : i % 3 == 1 ? h + x : h * x;
    return {h};
  }
  int size;
  volta::Tensor x = volta::rand({64}).eval();
};

// A tree: neighbours are added until one value is left.
struct Tree : PlannedGraph {
  explicit Tree(int size) {
    for (int i = 0; i < size; ++i) leaves.push_back(volta::rand({64}).eval());
  }
  std::vector<volta::Tensor> record() override {
    std::vector<volta::Tensor> level = leaves;
    while (level.size() > 1) {
      std::vector<volta::Tensor> next;
      for (std::size_t i = 0; i + 1 < level.size(); i += 2)
        next.push_back(volta::tanh(level[i] + level[i + 1]));
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = std::move(next);
    }
    return level;
  }
  std::vector<volta::Tensor> leaves;
};

// One value with many readers, each for a result of its own; every second one also reads another
// value.
struct Fan : PlannedGraph {
  explicit Fan(int size) {
    for (int i = 0; i < size; ++i) others.push_back(volta::rand({64}).eval());
  }
  std::vector<volta::Tensor> record() override {
    std::vector<volta::Tensor> results;
    for (std::size_t i = 0; i < others.size(); ++i)
      results.push_back(i % 2 == 0 ? volta::tanh(x) * static_cast<double>(i + 2) : x * others[i]);
    return results;
  }
  volta::Tensor x = volta::rand({64}).eval();
  std::vector<volta::Tensor> others;
};

// One value that is read in different ways: by element, along rows, along columns, in another
// shape.
struct MixedFan : PlannedGraph {
  explicit MixedFan(int size) : size(size) {}
  std::vector<volta::Tensor> record() override {
    std::vector<volta::Tensor> results;
    for (int i = 0; i < size; ++i) {
      const double factor = i + 2;
      if (i % 4 == 0) results.push_back(volta::tanh(x * factor));
      if (i % 4 == 1) results.push_back((x * factor).sum(1));
      if (i % 4 == 2) results.push_back((x * factor).sum(0));
      if (i % 4 == 3) results.push_back(volta::exp(x.reshape({4, 2, 8}) * factor).sum(2));
    }
    return results;
  }
  int size;
  volta::Tensor x = volta::rand({8, 8}).eval();
};

// Small graphs that are independent of each other.
struct Independent : PlannedGraph {
  explicit Independent(int size) {
    for (int i = 0; i < size; ++i) inputs.push_back(volta::rand({8, 8}).eval());
  }
  std::vector<volta::Tensor> record() override {
    std::vector<volta::Tensor> results;
    for (const volta::Tensor& x : inputs) results.push_back((volta::exp(x) * x).sum(1));
    return results;
  }
  std::vector<volta::Tensor> inputs;
};

// A step of Adam with gradients that are already computed.
struct AdamStep : PlannedGraph {
  explicit AdamStep(int size) {
    for (int i = 0; i < size; ++i) {
      parameters.push_back(volta::rand({4, 4 + i % 7}).set_requires_grad());
      gradients.push_back(volta::rand({4, 4 + i % 7}).eval());
    }
    optimizer = std::make_unique<volta::optim::Adam>(parameters);
  }
  std::vector<volta::Tensor> record() override {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i] * 0.5);
    optimizer->step();
    return parameters;
  }
  std::vector<volta::Tensor> parameters, gradients;
  std::unique_ptr<volta::optim::Adam> optimizer;
};

// A training step of a network.
struct Training : PlannedGraph {
  virtual volta::Tensor loss() = 0;
  std::vector<volta::Tensor> record() override {
    optimizer->zero_grad();
    volta::Tensor result = loss();
    result.backward();
    optimizer->step();
    return {result};
  }
  void train(const std::vector<volta::Tensor>& parameters) {
    optimizer = std::make_unique<volta::optim::Adam>(parameters);
  }
  std::unique_ptr<volta::optim::Adam> optimizer;
};

struct Transformer : Training {
  explicit Transformer(int layers) {
    std::vector<volta::Tensor> all;
    for (int i = 0; i < layers; ++i) {
      blocks.push_back(std::make_unique<volta::nn::TransformerBlock>(
          32, 4, volta::nn::TransformerBlockOptions{.causal = true}));
      for (const auto& parameter : blocks.back()->parameters()) all.push_back(parameter);
    }
    train(all);
  }
  volta::Tensor loss() override {
    volta::Tensor h = x;
    for (const auto& block : blocks) h = (*block)(h);
    return (h * h).mean();
  }
  volta::Tensor x = volta::rand({2, 8, 32}).eval();
  std::vector<std::unique_ptr<volta::nn::TransformerBlock>> blocks;
};

struct Lstm : Training {
  explicit Lstm(int length) : x(volta::rand({length, 4, 16}).eval()) { train(lstm.parameters()); }
  volta::Tensor loss() override {
    const volta::Tensor output = lstm(x).output;
    return (output * output).mean();
  }
  volta::Tensor x;
  volta::nn::LSTM lstm{16, 16, volta::nn::LSTMOptions{.num_layers = 2}};
};

struct GraphFamily {
  std::string name;
  std::unique_ptr<PlannedGraph> (*make)(int size);
  std::vector<int> sizes;
};

template <class Graph>
GraphFamily family(std::string name, std::vector<int> sizes) {
  return {std::move(name),
          [](int size) -> std::unique_ptr<PlannedGraph> { return std::make_unique<Graph>(size); },
          std::move(sizes)};
}

inline std::vector<GraphFamily> graph_families() {
  return {family<Chain>("chain", {100, 1000, 2000, 4000, 8000}),
          family<Tree>("tree", {250, 1000, 2000, 4000}),
          family<Fan>("fan", {250, 1000, 2000, 4000}),
          family<MixedFan>("fan, mixed", {250, 500, 1000, 2000}),
          family<Independent>("independent", {125, 500, 1000, 2000}),
          family<AdamStep>("Adam, parameters", {10, 30, 100, 300, 1000}),
          family<Transformer>("transformer, layers", {2, 4, 8, 16, 24, 32}),
          family<Lstm>("LSTM, length", {25, 50, 100, 200, 400, 800})};
}

}  // namespace bench
