// Sequential.
#include "volta/nn/sequential.h"

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::nn {

void detail::throw_no_module(const char* list, std::size_t position, std::size_t size) {
  throw ArgumentError(fmt::format("{}: there is no module {} among {}", list, position, size));
}

Sequential::Sequential() : items_(std::make_shared<std::vector<Item>>()) {}

Sequential::Sequential(std::initializer_list<Item> items) : Sequential() {
  for (const Item& item : items) append(item);
}

Sequential& Sequential::append(Item item) {
  if (item.name.empty()) item.name = std::to_string(size());
  add(item.name, item.module);
  items_->push_back(std::move(item));
  return *this;
}

Sequential& Sequential::replace(std::size_t position, detail::AnyModule module) {
  if (position >= size()) detail::throw_no_module("Sequential", position, size());
  Item& item = (*items_)[position];
  replace_child(item.name, *item.module, module);
  item.module = std::move(module);
  return *this;
}

Module& Sequential::operator[](std::size_t position) const {
  if (position >= size()) detail::throw_no_module("Sequential", position, size());
  return *(*items_)[position].module;
}

Tensor Sequential::forward(const Tensor& x) {
  if (items_->empty()) return x;
  Tensor value = (*items_->front().module)(x);
  for (std::size_t i = 1; i < items_->size(); ++i) value = (*(*items_)[i].module)(value);
  return value;
}

}  // namespace volta::nn
