// Optimizer: the common part of all optimizers: parameter groups, their state tensors, and saving.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/detail/optimizer_ops.h"
#include "volta/io.h"
#include "volta/optim/param_group.h"
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

  // Updates every parameter that requires a gradient and has one, so parameters may be frozen and
  // unfrozen between steps. Submits the step and returns without waiting.
  void step(SourceLocation place = SourceLocation::here());
  void zero_grad();  // drops the gradients

  double lr() const { return groups_[0].lr(); }  // learning rate of the first group
  void set_lr(double lr);                        // sets it for all groups
  // The span is valid until a group is added.
  std::span<ParamGroup> groups() { return groups_; }
  std::span<const ParamGroup> groups() const { return groups_; }
  const std::vector<Tensor>& parameters() const { return parameters_; }  // of all groups

  // Options and state: "groups.<group>.<option>" and, for each parameter that has been updated,
  // "<position>.<state>".
  StateDict state_dict() const;
  // Throws one ArgumentError listing all mismatches, and then changes nothing.
  void load_state_dict(const StateDict& state);

 protected:
  struct StateKind {
    const char* name;
    bool per_element;  // has the parameter's shape and dtype; otherwise an f32 scalar
    // Groups in which this option is 0 have no such state. If empty, all groups have it.
    std::string_view option = {};
  };
  // For each kind of state one tensor per parameter, undefined if the group has no such state.
  using States = std::vector<std::vector<Tensor>>;

  // Makes one group whose only option is lr. `name` and the kinds' names are string literals.
  // Throws ArgumentError for parameters that are undefined, not floating-point, or not leaves.
  Optimizer(const char* name, std::vector<Tensor> parameters, double lr,
            std::vector<StateKind> kinds);
  // Makes no groups; the derived constructor adds them. The rules must outlive the optimizer.
  Optimizer(OptionTable table, std::vector<StateKind> kinds);
  void require_groups(std::size_t count) const;  // throws ArgumentError if there are none
  void add_group(std::vector<Tensor> parameters, std::vector<double> numbers);

  // Updates these parameters of the group, which all have gradients; states are
  // states[kind][parameter]. Recorded operations are submitted after all groups have been updated.
  virtual void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                      SourceLocation place) = 0;
  // The state before a parameter's first step.
  virtual Tensor initial_state(const ParamGroup& group, std::size_t kind,
                               const Tensor& parameter) const;
  // Whether update() honours scaled_step(). If not, GradScaler decides on the host whether to step.
  virtual bool skips_on_device() const { return false; }
  // Checks a parameter beyond the constructor's checks; returns the problem or nullptr.
  virtual const char* problem_of(const Tensor& parameter) const;
  // The scaling of the current step; it has an effect only inside GradScaler::step.
  const ScaledStep& scaled_step() const { return scaled_; }

 private:
  friend class volta::GradScaler;
  void prepare_states(std::size_t group, const std::vector<bool>& updated);
  static bool takes_step(const Tensor& parameter);
  std::vector<Tensor> gradients() const;  // gradients that a step would use
  void require_gradient_fits(std::size_t group, std::size_t position) const;
  void take_step(SourceLocation place);
  bool step_group(std::size_t group, SourceLocation place);  // returns whether there was a gradient

  OptionTable table_;
  std::vector<StateKind> kinds_;
  std::vector<ParamGroup> groups_;
  std::vector<States> states_;  // one entry per group; undefined until a parameter's first step
  std::vector<Tensor> parameters_;
  ScaledStep scaled_;
  // Identifies the optimizer for GradScaler; unlike an address it is never reused.
  std::shared_ptr<const char> identity_ = std::make_shared<const char>();
  std::vector<Tensor*> made_;  // states created by the current step
};

}  // namespace volta::optim
