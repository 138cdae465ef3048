// One update of a task, recorded as a whole and left to whoever runs it: to be explained, or timed.
// The same operations as the trainer's, whose optimizer submits each step.
#pragma once

#include <vector>

#include "train/recipe.h"

namespace volta::cli {

// Records forward and backward pass for a batch, and clips where the settings say so: what every
// step is before its update. Gives the loss.
Tensor record_gradients(Task& task, const Settings& settings, const std::vector<Tensor>& parameters,
                        const data::Batch& batch);

class TrainingStep {
 public:
  // Puts the model into training mode; its weights and the optimizer's state are in memory then.
  // The task and the settings must outlive this.
  TrainingStep(Task& task, const Settings& settings);

  // Records forward, backward, clipping and AdamW's update, and submits nothing. Gives what the
  // step computes: the loss first.
  std::vector<Tensor> record(const data::Batch& batch);

 private:
  Task& task_;
  const Settings& settings_;
  std::vector<Tensor> parameters_, first_, second_, steps_;
};

}  // namespace volta::cli
