// Optimizer: what all optimizers share: parameters, their state tensors, learning rate, saving.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "volta/io.h"
#include "volta/optimizer_ops.h"
#include "volta/tensor.h"

namespace volta {
class GradScaler;
}

namespace volta::optim {

class VOLTA_API Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer();

  // Updates every parameter that has a gradient; submits the step and returns without waiting.
  void step(Place place = Place::here());
  void zero_grad();  // drops the gradients

  double lr() const { return lr_; }
  void set_lr(double lr);
  const std::vector<Tensor>& parameters() const { return parameters_; }

  // Learning rate and state: "lr" and, for each parameter that has been updated,
  // "<position>.<state>".
  StateDict state_dict() const;
  // Throws one ArgumentError listing all that does not fit, and then changes nothing.
  void load_state_dict(const StateDict& state);

 protected:
  struct StateKind {
    const char* name;
    bool per_element;  // of the parameter's shape and dtype; otherwise an f32 scalar
  };
  // States of one kind, one tensor per parameter.
  using States = std::vector<std::vector<Tensor>>;

  // `name` and the kinds' names are string literals. Throws ArgumentError for parameters that are
  // undefined, not leaves, or do not require a gradient.
  Optimizer(const char* name, std::vector<Tensor> parameters, double lr,
            std::vector<StateKind> kinds);

  // Throws ArgumentError "<name>: <what> must be in [low, high), got <value>".
  void require_range(const char* what, double value, double low, double high) const;

  // One step of these parameters, all with gradients; states[kind][parameter].
  virtual void update(std::span<const Tensor> parameters, States& states, Place place) = 0;
  // The state before a parameter's first step.
  virtual Tensor initial_state(std::size_t kind, const Tensor& parameter) const;
  // Whether update() heeds scaled_step(). If not, GradScaler decides on the host whether to step.
  virtual bool skips_on_device() const { return false; }
  // How the step that is being made is scaled; without effect outside of GradScaler::step.
  const ScaledStep& scaled_step() const { return scaled_; }

 private:
  friend class volta::GradScaler;
  void prepare_states(std::size_t parameter);

  const char* name_;
  std::vector<Tensor> parameters_;
  double lr_;
  std::vector<StateKind> kinds_;
  States states_;  // undefined until the parameter's first step
  ScaledStep scaled_;
  // What GradScaler knows the optimizer by: an address may be another's later, this never.
  std::shared_ptr<const char> identity_ = std::make_shared<const char>();
};

}  // namespace volta::optim
