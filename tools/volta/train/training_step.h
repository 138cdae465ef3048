// One update of a task, recorded as a whole for explanation or timing. It has the same operations
// as the trainer's step, which the optimizer submits.
#pragma once

#include <vector>

#include "train/recipe.h"

namespace volta::cli {

// Records forward and backward pass for a batch, with clipping if the settings ask for it, and
// returns the loss. Every step begins this way.
Tensor record_gradients(Task& task, const Settings& settings, const std::vector<Tensor>& parameters,
                        const data::Batch& batch);

class TrainingStep {
 public:
  // Puts the model into training mode and its weights and the optimizer's state into memory. The
  // task and the settings must outlive this object.
  TrainingStep(Task& task, const Settings& settings);

  // Records forward pass, backward pass, clipping and AdamW's update without submitting them.
  // Returns the values that the step computes, the loss first.
  std::vector<Tensor> record(const data::Batch& batch);

 private:
  Task& task_;
  const Settings& settings_;
  std::vector<Tensor> parameters_, first_, second_, steps_;
};

}  // namespace volta::cli
