// Sequential.
#include "volta/nn/sequential.h"

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::nn {

const detail::AnyModule& detail::module_at(const char* list, const std::vector<AnyModule>& modules,
                                           std::size_t position) {
  if (position < modules.size()) return modules[position];
  throw ArgumentError(
      fmt::format("{}: there is no module {} among {}", list, position, modules.size()));
}

Sequential::Sequential() : modules_(std::make_shared<std::vector<detail::AnyModule>>()) {}

Sequential::Sequential(std::initializer_list<Item> items) : Sequential() {
  for (const Item& item : items) append(item);
}

Sequential& Sequential::append(const Item& item) {
  add(item.name.empty() ? std::to_string(size()) : item.name, item.module);
  modules_->push_back(item.module);
  return *this;
}

Module& Sequential::operator[](std::size_t position) const {
  return *detail::module_at("Sequential", *modules_, position);
}

Tensor Sequential::forward(const Tensor& x) {
  if (modules_->empty()) return x;
  Tensor value = (*modules_->front())(x);
  for (std::size_t i = 1; i < modules_->size(); ++i) value = (*(*modules_)[i])(value);
  return value;
}

}  // namespace volta::nn
