// Training steps with changing sizes: milliseconds of a step at a size seen before, at a new size,
// and of the first step.
//   volta_changing [--device cpu|cuda:0|opencl:0] [--steps N]
// The columns "plans" and "compiled" count what was built during the steps at new sizes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "measuring.h"
#include "volta/volta.h"

namespace {

using namespace volta;
using Step = std::function<void(std::int64_t)>;

double milliseconds(const Step& step, std::int64_t size, Device device) {
  const auto start = std::chrono::steady_clock::now();
  step(size);
  synchronize(device);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void print_row(const std::string& what, double known, double fresh, double first,
               std::uint64_t plans, std::uint64_t compiled) {
  std::printf("| %-34s | %9.2f | %9.2f | %5.2f | %9.1f | %5llu | %8llu |\n", what.c_str(), known,
              fresh, fresh / known, first, static_cast<unsigned long long>(plans),
              static_cast<unsigned long long>(compiled));
  std::fflush(stdout);
}

// Sizes from `least` up to `most`, each once, in random order: the first ones are warm-up, which
// plans each order of magnitude; then each is timed when it is new, and again at once.
void measure(const std::string& what, std::int64_t least, std::int64_t most, int steps,
             Device device, const Step& step) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = least; size <= most; ++size) sizes.push_back(size);
  std::shuffle(sizes.begin(), sizes.end(), std::mt19937(1));
  const double first = milliseconds(step, sizes.back(), device);
  sizes.pop_back();
  const std::size_t warm = std::min<std::size_t>(sizes.size() / 3, 24);
  for (std::size_t n = 0; n < warm; ++n) step(sizes[n]);
  std::vector<double> fresh, again;
  std::uint64_t plans = 0, compiled = 0;
  for (std::size_t n = warm; n < sizes.size() && n < warm + static_cast<std::size_t>(steps); ++n) {
    const Counters now = counters();
    fresh.push_back(milliseconds(step, sizes[n], device));
    plans += counters().plans_built - now.plans_built;
    compiled += counters().compilations - now.compilations;
    step(sizes[n]);  // GPUs capture a graph at the third run
    step(sizes[n]);
    again.push_back(milliseconds(step, sizes[n], device));
  }
  print_row(what, median(again), median(fresh), first, plans, compiled);
}

Step mlp(Device device) {
  auto model = std::make_shared<nn::Sequential>(nn::Sequential(
      {nn::Linear(784, 256), nn::ReLU(), nn::Linear(256, 256), nn::ReLU(), nn::Linear(256, 10)}));
  model->to(device);
  auto optimizer =
      std::make_shared<optim::Adam>(model->parameters(), optim::AdamOptions{.lr = 1e-3});
  return [=](std::int64_t batch) {
    const Tensor x = rand({batch, 784}, {.device = device});
    const Tensor y = randint(0, 10, {batch}, {.device = device});
    optimizer->zero_grad();
    cross_entropy((*model)(x), y).backward();
    optimizer->step();
  };
}

Step cnn(Device device) {
  auto model = std::make_shared<nn::Sequential>(nn::Sequential(
      {nn::Conv2d(1, 8, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(8, 16, 3),
       nn::BatchNorm2d(16), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(576, 10)}));
  model->to(device);
  auto optimizer =
      std::make_shared<optim::Adam>(model->parameters(), optim::AdamOptions{.lr = 1e-3});
  return [=](std::int64_t batch) {
    const Tensor x = rand({batch, 1, 28, 28}, {.device = device});
    const Tensor y = randint(0, 10, {batch}, {.device = device});
    optimizer->zero_grad();
    cross_entropy((*model)(x), y).backward();
    optimizer->step();
  };
}

Step transformer(Device device, int layers) {
  constexpr std::int64_t kWidth = 64, kBatch = 2, kWords = 96;
  struct Network {
    nn::Embedding words{kWords, kWidth};
    std::vector<nn::TransformerBlock> blocks;
    nn::Linear head{kWidth, kWords};
    std::unique_ptr<optim::Adam> optimizer;
  };
  auto network = std::make_shared<Network>();
  std::vector<Tensor> parameters;
  const auto add = [&](nn::Module& module) {
    module.to(device);
    for (const Tensor& parameter : module.parameters()) parameters.push_back(parameter);
  };
  add(network->words);
  for (int n = 0; n < layers; ++n) {
    network->blocks.emplace_back(kWidth, 4, nn::TransformerBlockOptions{.causal = true});
    add(network->blocks.back());
  }
  add(network->head);
  network->optimizer = std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-3});
  return [=](std::int64_t length) {
    const Tensor ids = randint(0, kWords, {kBatch, length}, {.device = device});
    network->optimizer->zero_grad();
    Tensor x = network->words(ids);
    for (nn::TransformerBlock& block : network->blocks) x = block(x);
    const Tensor logits = network->head(x);
    cross_entropy(logits.reshape({kBatch * length, kWords}), ids.reshape({kBatch * length}))
        .backward();
    network->optimizer->step();
  };
}

// Text generation with a cache of keys and values that grows by one per step.
Step cache(Device device) {
  constexpr std::int64_t kWidth = 64;
  const Tensor keys = rand({512, kWidth}, {.device = device});
  const Tensor query = rand({1, kWidth}, {.device = device});
  return [=](std::int64_t length) {
    const NoGrad off;
    const Tensor seen = keys.narrow(0, 0, length);
    matmul(softmax(matmul(query, seen.transpose(0, 1)), 1), seen).eval();
  };
}

// Stochastic depth: a training step leaves out residual blocks at random, so hardly any two steps
// record the same operations. `depth` tells of each block whether it takes part.
using DepthStep = std::function<void(const std::vector<bool>& depth)>;

DepthStep stochastic_depth(Device device, int layers) {
  constexpr std::int64_t kWidth = 64, kBatch = 2, kLength = 64, kWords = 96;
  struct Network {
    nn::Embedding words{kWords, kWidth};
    std::vector<nn::LayerNorm> norms;
    std::vector<nn::MultiheadAttention> attentions;
    std::vector<nn::Sequential> layers;
    nn::Linear head{kWidth, kWords};
    std::unique_ptr<optim::Adam> optimizer;
  };
  auto network = std::make_shared<Network>();
  std::vector<Tensor> parameters;
  const auto add = [&](nn::Module& module) {
    module.to(device);
    for (const Tensor& parameter : module.parameters()) parameters.push_back(parameter);
  };
  add(network->words);
  for (int n = 0; n < layers; ++n) {
    for (int k = 0; k < 2; ++k) {
      network->norms.emplace_back(kWidth);
      add(network->norms.back());
    }
    network->attentions.emplace_back(kWidth, 4);
    add(network->attentions.back());
    network->layers.push_back(nn::Sequential(
        {nn::Linear(kWidth, 4 * kWidth), nn::GELU(), nn::Linear(4 * kWidth, kWidth)}));
    add(network->layers.back());
  }
  add(network->head);
  network->optimizer = std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = 1e-3});
  return [=](const std::vector<bool>& depth) {
    const Tensor ids = randint(0, kWords, {kBatch, kLength}, {.device = device});
    network->optimizer->zero_grad();
    Tensor x = network->words(ids);
    for (std::size_t n = 0; n < network->attentions.size(); ++n) {
      if (depth[2 * n]) {
        const Tensor y = network->norms[2 * n](x);
        x = x + network->attentions[n](y, y, y);
      }
      if (depth[2 * n + 1]) x = x + network->layers[n](network->norms[2 * n + 1](x));
    }
    cross_entropy(network->head(x).reshape({kBatch * kLength, kWords}),
                  ids.reshape({kBatch * kLength}))
        .backward();
    network->optimizer->step();
  };
}

void measure_depth(const std::string& what, int blocks, int steps, Device device,
                   const DepthStep& step) {
  std::mt19937 draw(1);
  const std::vector<bool> all(static_cast<std::size_t>(2 * blocks), true);
  const auto some = [&] {
    std::vector<bool> depth;
    for (std::size_t n = 0; n < all.size(); ++n) depth.push_back(draw() % 10 >= 2);
    return depth;
  };
  const auto timed = [&](const std::vector<bool>& depth) {
    return milliseconds([&](std::int64_t) { step(depth); }, 0, device);
  };
  const double first = timed(all);
  for (int n = 0; n < 4; ++n) step(all);
  std::vector<double> fixed, varying;
  for (int n = 0; n < steps; ++n) fixed.push_back(timed(all));
  for (int n = 0; n < 24; ++n) step(some());
  const Counters before = counters();
  for (int n = 0; n < steps; ++n) varying.push_back(timed(some()));
  const Counters now = counters();
  print_row(what, median(fixed), median(varying), first, now.plans_built - before.plans_built,
            now.compilations - before.compilations);
}

int run(int argc, char** argv) {
  Device device = Device::cpu();
  int steps = 30;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw bench::UsageError("no value for " + name);
    if (name == "--device") {
      device = Device::parse(argv[i + 1]);
    } else if (name == "--steps") {
      steps = std::atoi(argv[i + 1]);
    } else {
      throw bench::UsageError("unknown option " + name);
    }
  }
  manual_seed(1);
  std::printf(
      "| steps                              | known, ms | new, ms   | ratio | first, ms | "
      "plans | compiled |\n");
  std::printf(
      "| ---------------------------------- | --------: | --------: | ----: | --------: | "
      "----: | -------: |\n");
  measure("MLP, batches of 1 to 64", 1, 64, steps, device, mlp(device));
  measure("CNN, batches of 1 to 64", 1, 64, steps, device, cnn(device));
  for (const int layers : {2, 6, 12}) {
    measure("transformer of " + std::to_string(layers) + ", lengths 20 to 120", 20, 120, steps,
            device, transformer(device, layers));
  }
  measure("attention over 2 to 512 keys", 2, 512, steps, device, cache(device));
  measure_depth("transformer of 12, stochastic depth", 12, steps, device,
                stochastic_depth(device, 12));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
