// ParamGroup: parameters that an optimizer updates with the same options, and these options.
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

// An option of a group with its allowed range. Options are numbers; flags are 0 or 1.
struct OptionRule {
  std::string_view name;
  double low = 0, high = std::numeric_limits<double>::infinity();  // in [low, high)
  bool whole = false;
};
inline constexpr OptionRule flag(std::string_view name) { return {name, 0, 2, true}; }

// The options of an optimizer's groups. The first rule is that of the learning rate.
struct OptionTable {
  const char* optimizer = "";
  std::span<const OptionRule> rules = {};
  // Checks the numbers together after each was checked alone; returns the problem or nullptr.
  const char* (*problem)(std::span<const double> numbers) = nullptr;
};

class VOLTA_API ParamGroup {
 public:
  const std::vector<Tensor>& parameters() const { return parameters_; }

  double lr() const { return numbers_[0]; }
  void set_lr(double lr) { set("lr", lr); }
  // The rate that schedulers start from: the learning rate when the first scheduler was made.
  std::optional<double> initial_lr() const { return initial_lr_; }
  void set_initial_lr(double lr);

  // Options by the names of the optimizer's options ("momentum", "betas.first"). A new value is
  // used from the next step on; an invalid value throws ArgumentError and changes nothing.
  bool has(std::string_view option) const { return position_of(option).has_value(); }
  double get(std::string_view option) const;
  void set(std::string_view option, double value);
  // The option at this position in the optimizer's table.
  double operator[](std::size_t option) const { return numbers_[option]; }

 private:
  friend class Optimizer;
  ParamGroup(const OptionTable& table, std::string name, std::vector<Tensor> parameters,
             std::vector<double> numbers);
  std::optional<std::size_t> position_of(std::string_view option) const;
  std::size_t require_option(std::string_view option) const;
  // Returns the problems of the numbers, one per line, or an empty list.
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
