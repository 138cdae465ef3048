// Optimizer: what all optimizers share: groups of parameters, their state tensors, saving.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/io.h"
#include "volta/optim/param_group.h"
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

  // Updates every parameter that requires a gradient and has one, so that others may be frozen and
  // unfrozen between steps; submits the step and returns without waiting.
  void step(Place place = Place::here());
  void zero_grad();  // drops the gradients

  double lr() const { return groups_[0].lr(); }  // of the first group
  void set_lr(double lr);                        // of every group
  // Valid until a group is added.
  std::span<ParamGroup> groups() { return groups_; }
  std::span<const ParamGroup> groups() const { return groups_; }
  const std::vector<Tensor>& parameters() const { return parameters_; }  // of all groups

  // Numbers and state: "groups.<group>.<option>" and, for each parameter that has been updated,
  // "<position>.<state>".
  StateDict state_dict() const;
  // Throws one ArgumentError listing all that does not fit, and then changes nothing.
  void load_state_dict(const StateDict& state);

 protected:
  struct StateKind {
    const char* name;
    bool per_element;  // of the parameter's shape and dtype; otherwise an f32 scalar
    // The option that asks for it: groups where it is 0 have no such state. None: all have.
    std::string_view option = {};
  };
  // States of one kind, one tensor per parameter; undefined where the group has none.
  using States = std::vector<std::vector<Tensor>>;

  // `name` and the kinds' names are string literals. One group, whose only number is lr. Throws
  // ArgumentError for parameters that are undefined, not floating, or not leaves.
  Optimizer(const char* name, std::vector<Tensor> parameters, double lr,
            std::vector<StateKind> kinds);
  // Without groups: the constructor adds them. The rules live as long as the optimizer.
  Optimizer(OptionTable table, std::vector<StateKind> kinds);
  void require_groups(std::size_t count) const;  // throws ArgumentError if there are none
  void add_group(std::vector<Tensor> parameters, std::vector<double> numbers);

  // One step of these parameters of the group, all with gradients; states[kind][parameter]. What it
  // records is submitted when all groups have been updated.
  virtual void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                      Place place) = 0;
  // The state before a parameter's first step.
  virtual Tensor initial_state(const ParamGroup& group, std::size_t kind,
                               const Tensor& parameter) const;
  // Whether update() heeds scaled_step(). If not, GradScaler decides on the host whether to step.
  virtual bool skips_on_device() const { return false; }
  // What is asked of a parameter beyond the constructor's checks; nullptr: nothing is wrong.
  virtual const char* problem_of(const Tensor& parameter) const;
  // How the step that is being made is scaled; without effect outside of GradScaler::step.
  const ScaledStep& scaled_step() const { return scaled_; }

 private:
  friend class volta::GradScaler;
  void prepare_states(std::size_t group, const std::vector<bool>& updated);
  static bool takes_step(const Tensor& parameter);
  std::vector<Tensor> gradients() const;  // of those that a step changes
  void require_gradient_fits(std::size_t group, std::size_t position) const;
  void take_step(Place place);
  bool step_group(std::size_t group, Place place);  // whether there was a gradient

  OptionTable table_;
  std::vector<StateKind> kinds_;
  std::vector<ParamGroup> groups_;
  std::vector<States> states_;  // of each group; undefined until the parameter's first step
  std::vector<Tensor> parameters_;
  ScaledStep scaled_;
  // What GradScaler knows the optimizer by: an address may be another's later, this never.
  std::shared_ptr<const char> identity_ = std::make_shared<const char>();
  std::vector<Tensor*> made_;  // states that the step being made is the first for
};

}  // namespace volta::optim
