// Training without epochs, evaluations and files.
#include "train/step_runner.h"

#include "train/training_step.h"
#include "volta/error.h"
#include "volta/profiler.h"
#include "volta/random.h"

namespace volta::cli {

StepRunner::StepRunner(const Recipe& recipe, const Settings& settings, Device device)
    : settings_(settings), device_(device) {
  manual_seed(static_cast<std::uint64_t>(settings.integer("seed")));
  task_ = recipe.make(settings, device);
  if (task_->loader().size() == 0)
    throw ArgumentError("the data set has no examples to train with: give it more data");
  task_->model().train();
  parameters_ = task_->model().parameters();
  optimizer_ = std::make_unique<optim::AdamW>(
      parameters_, optim::AdamWOptions{.lr = settings.number("lr"),
                                       .weight_decay = settings.number("weight_decay")});
}

std::int64_t StepRunner::train(std::int64_t steps) {
  std::int64_t units = 0;
  while (steps > 0) {
    for (const data::Batch& batch : task_->loader()) {
      step(batch);
      units += task_->units(batch);
      if (--steps == 0) break;
    }
  }
  synchronize(device_);
  return units;
}

void StepRunner::step(const data::Batch& batch) {
  const ProfileRange range("step");
  optimizer_->zero_grad();
  record_gradients(*task_, settings_, parameters_, batch);
  optimizer_->step();
}

}  // namespace volta::cli
