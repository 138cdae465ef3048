// StateDict: tensors by name.
#include <fmt/format.h>

#include "volta/error.h"
#include "volta/io.h"

namespace volta {

StateDict::StateDict(std::initializer_list<Entry> entries) {
  for (const auto& [name, tensor] : entries) add(name, tensor);
}

void StateDict::add(std::string name, Tensor tensor) {
  if (!tensor.defined()) {
    throw ArgumentError(fmt::format("StateDict: tensor '{}' is undefined", name));
  }
  const auto [position, added] = positions_.try_emplace(name, entries_.size());
  if (!added) throw ArgumentError(fmt::format("StateDict: '{}' is already there", name));
  try {
    entries_.emplace_back(std::move(name), std::move(tensor));
  } catch (...) {
    positions_.erase(position);
    throw;
  }
}

void StateDict::add_unreadable(std::string name, std::string problem) {
  if (contains(name) || !unreadable_.try_emplace(name, std::move(problem)).second)
    throw ArgumentError(fmt::format("StateDict: '{}' is already there", name));
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto position = positions_.find(name);
  return position == positions_.end() ? nullptr : &entries_[position->second].second;
}

const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* tensor = find(name);
  if (const auto problem = unreadable_.find(name); !tensor && problem != unreadable_.end())
    throw DTypeError(problem->second);
  if (!tensor) throw ArgumentError(fmt::format("StateDict: there is no '{}'", name));
  return *tensor;
}

}  // namespace volta
