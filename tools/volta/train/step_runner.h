// Some steps of a recipe's training, as `volta train` does them, for commands that look at those.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "train/recipe.h"
#include "train/settings.h"
#include "volta/optim.h"
#include "volta/tensor.h"

namespace volta::cli {

class StepRunner {
 public:
  // Throws ArgumentError where there is nothing to train with. The settings must outlive it.
  StepRunner(const Recipe& recipe, const Settings& settings, Device device);

  // So many steps, to their end; the number of units in them.
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
