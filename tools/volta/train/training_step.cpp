#include "train/training_step.h"

#include "volta/autocast.h"
#include "volta/detail/optimizer_ops.h"
#include "volta/nn/clip_grad.h"

namespace volta::cli {

TrainingStep::TrainingStep(Task& task, const Settings& settings)
    : task_(task), settings_(settings), parameters_(task.model().parameters()) {
  task.model().train();
  for (const auto& [name, tensor] : task.model().state_dict()) tensor.eval();
  for (const Tensor& parameter : parameters_) {
    first_.push_back(zeros_like(parameter).eval());
    second_.push_back(zeros_like(parameter).eval());
    steps_.push_back(zeros({}, {.device = parameter.device()}).eval());
  }
}

Tensor record_gradients(Task& task, const Settings& settings, const std::vector<Tensor>& parameters,
                        const data::Batch& batch) {
  Tensor loss;
  {
    const Autocast amp(settings.flag("amp") ? DType::bf16 : DType::f32);
    loss = task.loss(batch);
  }
  loss.backward();
  if (const double clip = settings.number("clip"); clip > 0) nn::clip_grad_norm(parameters, clip);
  return loss;
}

std::vector<Tensor> TrainingStep::record(const data::Batch& batch) {
  task_.model().zero_grad();
  const Tensor loss = record_gradients(task_, settings_, parameters_, batch);
  adam_step(parameters_, first_, second_, steps_,
            {.lr = settings_.number("lr"),
             .weight_decay = settings_.number("weight_decay"),
             .decoupled = true,
             .submits = false});
  std::vector<Tensor> made = {loss};
  for (const auto* list : {&parameters_, &first_, &second_})
    made.insert(made.end(), list->begin(), list->end());
  return made;
}

}  // namespace volta::cli
