// A small training run for tests of the effects of failures, with every kind of state (parameters,
// statistics, an optimizer's moments, random numbers), index checks, and a value that is read.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "runtime/runner.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::testing_faults {

struct Net : nn::Module {
  nn::Conv2d conv{1, 4, 3};
  nn::BatchNorm2d norm{4};
  nn::Embedding words{10, 8};
  nn::Linear hidden{4 * 6 * 6 + 3 * 8, 32};
  nn::Dropout drop{0.25};
  nn::Linear head{32, 5};

  Net() {
    add("conv", conv);
    add("norm", norm);
    add("words", words);
    add("hidden", hidden);
    add("drop", drop);
    add("head", head);
  }
  Tensor classify(const Tensor& images, const Tensor& ids) {
    const Tensor seen = relu(norm(conv(images))).flatten(1);
    return head(drop(relu(hidden(concat({seen, words(ids).flatten(1)}, 1)))));
  }
};

// Exact values by name.
using Values = std::map<std::string, std::vector<double>>;

// Records no operation, so nothing is planned.
inline std::vector<double> values_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::i64) return tensor.to_vector<double>();
  const auto integers = tensor.to_vector<std::int64_t>();
  return {integers.begin(), integers.end()};
}

class Training {
 public:
  Training() : net(made()), optimizer(net.parameters(), {.lr = 0.01}) {}

  // The data of a step, on the device.
  struct Batch {
    int number = 0;
    Tensor images, ids, labels;
  };
  static Batch batch(int number) {
    std::vector<float> pixels(kBatch * 64);
    std::vector<std::int64_t> ids(kBatch * 3), labels(kBatch);
    std::uint32_t noise = static_cast<std::uint32_t>(number) * 7919 + 1;
    const auto next = [&noise] { return noise = noise * 1664525u + 1013904223u, noise >> 16; };
    for (float& pixel : pixels) pixel = static_cast<float>(next() % 1000) / 1000.0f;
    for (std::int64_t& id : ids) id = next() % 10;
    for (std::int64_t& label : labels) label = next() % 5;
    const TensorOptions here = {.device = test_device()};
    return {number, from_vector(pixels, {kBatch, 1, 8, 8}, here),
            from_vector(ids, {kBatch, 3}, here), from_vector(labels, here)};
  }

  // Submits one step. Its random numbers follow from its number, so it can be repeated.
  Tensor step(const Batch& from) {
    manual_seed(static_cast<std::uint64_t>(1000 + from.number));
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net.classify(from.images, from.ids), from.labels);
    loss.backward();
    nn::clip_grad_norm(net.parameters(), 0.5);
    optimizer.step();
    return loss;
  }
  Tensor step(int number) { return step(batch(number)); }

  Values values() const {
    Values values;
    const auto add = [&](const std::string& prefix, const StateDict& state) {
      for (const auto& [name, tensor] : state) values[prefix + name] = values_of(tensor);
    };
    add("net.", net.state_dict());
    add("optimizer.", optimizer.state_dict());
    return values;
  }

  struct Snapshot {
    StateDict net, optimizer;
  };
  Snapshot snapshot() const {
    // Copies have memory of their own: a clone would share it and prevent updates in place.
    const auto copy = [](const StateDict& state) {
      StateDict copied;
      for (const auto& [name, tensor] : state) {
        const Shape& shape = tensor.shape();
        copied.add(name, tensor.dtype() == DType::i64
                             ? from_vector(tensor.to_vector<std::int64_t>(), shape)
                         : tensor.dtype() == DType::f64
                             ? from_vector(tensor.to_vector<double>(), shape)
                             : from_vector(tensor.to_vector<float>(), shape));
      }
      return copied;
    };
    return {copy(net.state_dict()), copy(optimizer.state_dict())};
  }
  void load(const Snapshot& snapshot) {
    net.load_state_dict(snapshot.net);
    optimizer.load_state_dict(snapshot.optimizer);
  }

  Net net;
  optim::Adam optimizer;

 private:
  static Net made() {
    manual_seed(7);
    Net net;
    net.to(test_device());
    return net;
  }

  static constexpr std::int64_t kBatch = 6;
};

// Drops all plans, as in a new process: the next step builds and prepares its plans.
inline void forget_plans() {
  static std::vector<void*> forgotten;  // nothing is freed, because recorders may refer to it
  DeviceEntry& entry = device_entry(test_device());
  synchronize(test_device());
  forgotten.push_back(entry.runtime);
  entry.runtime = nullptr;
  plan::cache_stats(test_device());  // creates a new runtime
}

// Does not count the arena, which is as large as the largest plan since memory last ran short.
inline std::uint64_t in_use() {
  synchronize(test_device());
  const std::uint64_t arena = plan::cache_stats(test_device()).arena_bytes;
  return memory_stats(test_device()).in_use - (arena + 255) / 256 * 256;
}

// The effects of a failed step: values that it overwrote and lost, and values that it changed.
struct Damage {
  int lost = 0;
  std::vector<std::string> changed;
};
inline Damage damage(const Training& training, const Training::Snapshot& before) {
  Damage found;
  const auto compare = [&found](const StateDict& now, const StateDict& then) {
    for (const auto& [name, tensor] : then) {
      const Tensor* current = now.find(name);
      if (current == nullptr) continue;
      try {
        if (values_of(*current) != values_of(tensor)) found.changed.push_back(name);
      } catch (const BackendError& error) {
        ++found.lost;
        const std::string text = to_string(test_device()) + ": a value is lost, ";
        EXPECT_EQ(std::string(error.what()).find(text), 0u) << error.what();
      }
    }
  };
  compare(training.net.state_dict(), before.net);
  compare(training.optimizer.state_dict(), before.optimizer);
  return found;
}

struct Outcome {
  Values values;
  std::vector<float> losses;
  std::uint64_t memory = 0;  // that the run holds while it is alive
  std::vector<std::string> errors;
  int lost = 0;                      // number of values that were loaded again
  std::vector<std::string> changed;  // values that a step had changed before it failed
};

// A run in which `arm` is called before one of the steps. Whatever throws is repeated: the batch;
// the step, until it is submitted, after loading the values that it lost; reading its loss.
inline Outcome train(int steps, int failing_step, const std::function<void()>& arm,
                     const std::function<void()>& disarm) {
  const std::uint64_t before = in_use();
  Outcome outcome;
  Training training;
  Tensor loss;
  Training::Snapshot snapshot;
  const auto until_done = [&](const std::function<void()>& act, bool stepped = false) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      try {
        return act();
      } catch (const Error& error) {
        outcome.errors.emplace_back(error.what());
        disarm();
        if (stepped) continue;  // the step was submitted: only the read is repeated
        const Damage found = damage(training, snapshot);
        outcome.lost += found.lost;
        outcome.changed = found.changed;
        if (found.lost > 0 || !found.changed.empty()) training.load(snapshot);
      }
    }
    ADD_FAILURE() << "fails three times: " << outcome.errors.back();
  };
  for (int step = 0; step < steps; ++step) {
    if (step == failing_step) {
      snapshot = training.snapshot();
      arm();
    }
    Training::Batch batch;
    until_done([&] { batch = Training::batch(step); });
    until_done([&] { loss = training.step(batch); });
    float value = 0;
    until_done([&] { value = loss.item<float>(); }, true);
    outcome.losses.push_back(value);
    if (step == failing_step) disarm();
  }
  outcome.values = training.values();
  snapshot = {};
  outcome.memory = in_use() - before;
  return outcome;
}

inline void expect_equal(const Outcome& outcome, const Outcome& expected) {
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.lost, 0);
  EXPECT_EQ(outcome.memory, expected.memory) << "memory is lost, or was counted wrong";
  ASSERT_EQ(outcome.values.size(), expected.values.size());
  for (const auto& [name, values] : expected.values)
    EXPECT_EQ(outcome.values.at(name), values) << name;
}

}  // namespace volta::testing_faults
