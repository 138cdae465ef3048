// Every optimizer with every option, as run by tests/golden/optim.py, with Volta's optimizers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "volta/volta.h"

namespace volta::optim_cases {

using Tensors = std::vector<Tensor>;
using Made = std::unique_ptr<optim::Optimizer>;

struct Case {
  const char* name;
  const char* inputs;
  // Makes an optimizer with two groups, of which the second has different options.
  std::function<Made(const Tensors& first, const Tensors& second)> make;
};

// The parameters of the groups remain to be filled in.
template <class Optimizer, class Options, class Group>
std::function<Made(const Tensors&, const Tensors&)> groups_of(Options options, Group other) {
  return [=](const Tensors& first, const Tensors& second) {
    Group one, two = other;
    one.parameters = first;
    two.parameters = second;
    return std::make_unique<Optimizer>(std::vector<Group>{one, two}, options);
  };
}

inline const std::vector<Case>& all() {
  using namespace optim;
  static const std::vector<Case> cases = {
      {"sgd0", "small", groups_of<SGD>(SGDOptions{.lr = 0.1}, SGDGroup{.lr = 0.03})},
      {"sgd1", "small",
       groups_of<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1},
                      SGDGroup{.lr = 0.03, .weight_decay = 0.0})},
      {"sgd2", "small",
       groups_of<SGD>(
           SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true},
           SGDGroup{.momentum = 0.5})},
      {"sgd3", "small",
       groups_of<SGD>(
           SGDOptions{
               .lr = 0.1, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1, .maximize = true},
           SGDGroup{.dampening = 0.0})},
      {"sgd4", "small",
       groups_of<SGD>(SGDOptions{.lr = 0.1, .maximize = true}, SGDGroup{.momentum = 0.9})},
      {"adam0", "small", groups_of<Adam>(AdamOptions{.lr = 0.05}, AdamGroup{.lr = 0.01})},
      {"adam1", "small",
       groups_of<Adam>(
           AdamOptions{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1},
           AdamGroup{.betas = {{0.5, 0.9}}, .eps = 1e-2})},
      {"adam2", "small",
       groups_of<Adam>(AdamOptions{.lr = 0.05, .betas = {0.9, 0.5}, .amsgrad = true},
                       AdamGroup{.amsgrad = false})},
      {"adam3", "small",
       groups_of<Adam>(AdamOptions{.lr = 0.05,
                                   .betas = {0.9, 0.5},
                                   .weight_decay = 0.1,
                                   .amsgrad = true,
                                   .maximize = true},
                       AdamGroup{.weight_decay = 0.0})},
      {"adamw0", "small",
       groups_of<AdamW>(AdamWOptions{.lr = 0.05, .weight_decay = 0.2},
                        AdamGroup{.weight_decay = 0.0})},
      {"adamw1", "small",
       groups_of<AdamW>(
           AdamWOptions{.lr = 0.05, .betas = {0.9, 0.5}, .amsgrad = true, .maximize = true},
           AdamGroup{.lr = 0.01})},
      {"rmsprop0", "small",
       groups_of<RMSprop>(RMSpropOptions{.lr = 0.01}, RMSpropGroup{.lr = 0.002})},
      {"rmsprop1", "small",
       groups_of<RMSprop>(
           RMSpropOptions{
               .lr = 0.01, .alpha = 0.9, .eps = 1e-4, .weight_decay = 0.1, .momentum = 0.9},
           RMSpropGroup{.alpha = 0.5, .momentum = 0.0})},
      {"rmsprop2", "small",
       groups_of<RMSprop>(RMSpropOptions{.lr = 0.01, .centered = true, .maximize = true},
                          RMSpropGroup{.centered = false})},
      {"rmsprop3", "small",
       groups_of<RMSprop>(
           RMSpropOptions{.lr = 0.01, .weight_decay = 0.1, .momentum = 0.5, .centered = true},
           RMSpropGroup{.weight_decay = 0.0})},
      {"adagrad0", "small",
       groups_of<Adagrad>(AdagradOptions{.lr = 0.1}, AdagradGroup{.lr = 0.02})},
      {"adagrad1", "small",
       groups_of<Adagrad>(AdagradOptions{.lr = 0.1,
                                         .lr_decay = 0.1,
                                         .weight_decay = 0.1,
                                         .initial_accumulator_value = 0.3,
                                         .eps = 1e-3},
                          AdagradGroup{.lr_decay = 0.0})},
      {"adagrad2", "small",
       groups_of<Adagrad>(AdagradOptions{.lr = 0.1, .maximize = true},
                          AdagradGroup{.weight_decay = 0.2})},
      {"lion0", "small", groups_of<Lion>(LionOptions{.lr = 0.01}, LionGroup{.lr = 0.002})},
      {"lion1", "small",
       groups_of<Lion>(LionOptions{.lr = 0.01, .betas = {0.5, 0.8}, .weight_decay = 0.2},
                       LionGroup{.weight_decay = 0.0})},
      {"muon0", "matrices", groups_of<Muon>(MuonOptions{.lr = 0.02}, MuonGroup{.lr = 0.005})},
      {"muon1", "matrices",
       groups_of<Muon>(MuonOptions{.lr = 0.02,
                                   .weight_decay = 0.5,
                                   .momentum = 0.5,
                                   .ns_steps = 3,
                                   .adjust_lr_fn = MuonAdjustment::match_rms_adamw},
                       MuonGroup{.nesterov = false})},
      {"muon2", "large",
       groups_of<Muon>(MuonOptions{.lr = 0.02, .ns_coefficients = {{3.0, -3.2, 1.2}}, .eps = 1e-3},
                       MuonGroup{.weight_decay = 0.0})},
  };
  return cases;
}

// A running case: new parameters, and ten steps with given gradients.
struct Training {
  Tensors parameters;
  std::vector<std::vector<double>> gradients;  // for all steps
  Made optimizer;

  Training(const Case& c, const StateDict& golden, DType dtype = DType::f32) {
    for (int i = 0; golden.contains(key(c, "before", i)); ++i) {
      const Tensor before = golden.at(key(c, "before", i)).to(dtype);
      parameters.push_back(before.clone().detach().set_requires_grad());
      gradients.push_back(golden.at(key(c, "gradients", i)).to_vector<double>());
    }
    optimizer = c.make(first_half(), second_half());
  }
  static std::string key(const Case& c, const char* what, int number) {
    return std::string(c.inputs) + "/" + what + std::to_string(number);
  }
  Tensors first_half() const { return {parameters.begin(), parameters.begin() + half()}; }
  Tensors second_half() const { return {parameters.begin() + half(), parameters.end()}; }
  std::ptrdiff_t half() const { return static_cast<std::ptrdiff_t>(parameters.size() + 1) / 2; }
  Tensor gradient(std::size_t parameter, int step) const {
    const Tensor& p = parameters[parameter];
    const auto first = gradients[parameter].begin() + step * p.numel();
    return from_vector(std::vector<double>(first, first + p.numel()), p.shape(),
                       {.dtype = p.dtype(), .device = p.device()});
  }
  void steps(int from, int to) const {
    for (int step = from; step < to; ++step) {
      for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradient(i, step));
      optimizer->step();
    }
  }
};

}  // namespace volta::optim_cases
