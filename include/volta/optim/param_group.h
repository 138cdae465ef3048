// ParamGroup: parameters that an optimizer updates with the same numbers, and those numbers.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "volta/tensor.h"

namespace volta::optim {

// A number of a group, and what is asked of it. Choices are numbers too: false is 0, true 1.
struct OptionRule {
  std::string_view name;
  double low = 0, high = std::numeric_limits<double>::infinity();  // in [low, high)
  bool whole = false;
};
inline constexpr OptionRule flag(std::string_view name) { return {name, 0, 2, true}; }

// What an optimizer's groups have. The first rule is the learning rate's.
struct OptionTable {
  const char* optimizer = "";
  std::span<const OptionRule> rules = {};
  // What is wrong with numbers that are right one by one; nullptr: nothing.
  const char* (*problem)(std::span<const double> numbers) = nullptr;
};

class VOLTA_API ParamGroup {
 public:
  const std::vector<Tensor>& parameters() const { return parameters_; }

  double lr() const { return numbers_[0]; }
  void set_lr(double lr) { set("lr", lr); }
  // Where schedulers start: the learning rate the first of them found.
  std::optional<double> initial_lr() const { return initial_lr_; }
  void set_initial_lr(double lr);

  // Options by the names of the optimizer's options ("momentum", "betas.first"). What is set is
  // used from the next step on; a number that is not allowed throws ArgumentError and changes
  // nothing.
  bool has(std::string_view option) const { return position_of(option).has_value(); }
  double get(std::string_view option) const;
  void set(std::string_view option, double value);
  // By their position in the optimizer's table.
  double operator[](std::size_t option) const { return numbers_[option]; }

 private:
  friend class Optimizer;
  ParamGroup(const OptionTable& table, std::string name, std::vector<Tensor> parameters,
             std::vector<double> numbers);
  std::optional<std::size_t> position_of(std::string_view option) const;
  std::size_t require_option(std::string_view option) const;
  // What is wrong with the numbers, each a line of its own; empty: nothing.
  static std::vector<std::string> problems_of(const OptionTable& table,
                                              std::span<const double> numbers);
  void require_good(std::span<const double> numbers) const;

  const OptionTable* table_;
  std::string name_;  // for messages
  std::vector<Tensor> parameters_;
  std::vector<double> numbers_;
  std::optional<double> initial_lr_;
};

}  // namespace volta::optim
