// Compares modules with golden runs of PyTorch's: parameters are loaded from the file; results,
// gradients and trained values are compared with it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/paths.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::golden_module {

class File {
 public:
  explicit File(const std::string& family)
      : values_(
            load(paths::golden_dir() + "/" + family + ".safetensors", {.device = test_device()})) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  const Tensor& operator[](const std::string& name) const { return values_.at(name); }
  Tensor input(const std::string& name, DType dtype = DType::f32) const {
    const Tensor& value = values_.at(name);
    return is_floating(value.dtype()) ? value.to(dtype) : value;
  }
  // The entries under a prefix, without the prefix.
  StateDict under(const std::string& prefix) const {
    StateDict state;
    for (const auto& [name, tensor] : values_) {
      if (name.starts_with(prefix)) state.add(name.substr(prefix.size()), tensor);
    }
    return state;
  }

  // The largest difference, relative to the largest value.
  void expect_close(const Tensor& tensor, const std::string& name, double tolerance) const {
    ASSERT_TRUE(tensor.defined()) << name;
    const Tensor& wanted = values_.at(name);
    ASSERT_EQ(tensor.shape(), wanted.shape()) << name;
    const std::vector<double> actual = tensor.to_vector<double>(),
                              expected = wanted.to_vector<double>();
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], tolerance * largest) << name << " at " << i;
  }

  // Compares every gradient of a case: those of `inputs`, by name, and those of the module's
  // parameters.
  void expect_gradients(const std::string& name, const nn::Module& module,
                        const std::vector<std::pair<std::string, Tensor>>& inputs,
                        double tolerance) const {
    for (const auto& [key, input] : inputs)
      expect_close(input.grad(), name + "/grad/" + key, tolerance);
    for (const auto& [key, parameter] : module.named_parameters())
      expect_close(parameter.grad(), name + "/grad/" + key, tolerance);
  }

  // Ten steps of AdamW as in the script's `train`: losses and parameters.
  void expect_training(const std::string& name, const nn::Module& module,
                       const std::function<Tensor()>& loss_of) const {
    optim::AdamW optimizer(module.parameters(), {.lr = 0.01, .eps = 1e-3, .weight_decay = 0.1});
    const std::vector<double> losses = values_.at(name + "/losses").to_vector<double>();
    ASSERT_EQ(losses.size(), 10u);
    for (std::size_t step = 0; step < losses.size(); ++step) {
      optimizer.zero_grad();
      const Tensor loss = loss_of();
      loss.backward();
      optimizer.step();
      EXPECT_NEAR(loss.item(), losses[step], 1e-4 * losses[step]) << name << " step " << step;
    }
    for (const auto& [key, parameter] : module.named_parameters())
      expect_close(parameter, name + "/after/" + key, 1e-4);
  }

 private:
  StateDict values_;
};

}  // namespace volta::golden_module
