// ParamGroup: options by name, with checks.
#include "volta/optim/param_group.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::optim {

ParamGroup::ParamGroup(const OptionTable& table, std::string name, std::vector<Tensor> parameters,
                       std::vector<double> numbers)
    : table_(&table),
      name_(std::move(name)),
      parameters_(std::move(parameters)),
      numbers_(std::move(numbers)) {
  require_good(numbers_);
}

std::vector<std::string> ParamGroup::problems_of(const OptionTable& table,
                                                 std::span<const double> numbers) {
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < table.rules.size(); ++i) {
    const OptionRule& rule = table.rules[i];
    const double value = numbers[i];
    const bool inside = value >= rule.low && value < rule.high;  // false for NaN
    if (!inside) {
      problems.push_back(
          fmt::format("{} must be in [{}, {}), got {}", rule.name, rule.low, rule.high, value));
    } else if (rule.whole && value != std::trunc(value)) {
      problems.push_back(fmt::format("{} must be whole, got {}", rule.name, value));
    }
  }
  if (!problems.empty() || table.problem == nullptr) return problems;
  if (const char* problem = table.problem(numbers)) problems.emplace_back(problem);
  return problems;
}

void ParamGroup::require_good(std::span<const double> numbers) const {
  const std::vector<std::string> problems = problems_of(*table_, numbers);
  if (!problems.empty()) throw ArgumentError(fmt::format("{}: {}", name_, problems[0]));
}

std::optional<std::size_t> ParamGroup::position_of(std::string_view option) const {
  for (std::size_t i = 0; i < table_->rules.size(); ++i) {
    if (option == table_->rules[i].name) return i;
  }
  return std::nullopt;
}

std::size_t ParamGroup::require_option(std::string_view option) const {
  if (const auto position = position_of(option)) return *position;
  std::string known;
  for (const OptionRule& rule : table_->rules)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", rule.name);
  throw ArgumentError(fmt::format("{}: there is no option {} (but {})", name_, option, known));
}

double ParamGroup::get(std::string_view option) const { return numbers_[require_option(option)]; }

void ParamGroup::set(std::string_view option, double value) {
  const std::size_t position = require_option(option);
  const double before = std::exchange(numbers_[position], value);
  try {
    require_good(numbers_);
  } catch (...) {
    numbers_[position] = before;
    throw;
  }
}

void ParamGroup::set_initial_lr(double lr) {
  const bool good = lr >= 0 && std::isfinite(lr);
  if (!good)
    throw ArgumentError(fmt::format("{}: initial_lr must be in [0, inf), got {}", name_, lr));
  initial_lr_ = lr;
}

}  // namespace volta::optim
