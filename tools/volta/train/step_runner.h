// Runs steps of a recipe's training like `volta train`, for commands that examine them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/recipe.h"
#include "train/settings.h"
#include "volta/optim.h"
#include "volta/tensor.h"

namespace volta::cli {

inline constexpr std::int64_t kMaxSteps = 1'000'000;  // that a command line may ask for

class StepRunner {
 public:
  // Throws ArgumentError if there is no training data. The settings must outlive the object.
  StepRunner(const Recipe& recipe, const Settings& settings, Device device);

  // Trains for `steps` steps, waits for them, and returns the number of units processed.
  std::int64_t train(std::int64_t steps);
  const char* unit() const { return task_->unit(); }

 private:
  void step(const data::Batch& batch);

  const Settings& settings_;
  const Device device_;
  std::unique_ptr<Task> task_;
  std::vector<Tensor> parameters_;
  std::unique_ptr<optim::AdamW> optimizer_;
};

}  // namespace volta::cli
