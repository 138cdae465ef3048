// Sequential.
#include "volta/nn/sequential.h"

namespace volta::nn {

Sequential::Sequential() : modules_(std::make_shared<std::vector<std::shared_ptr<Module>>>()) {}

Sequential::Sequential(std::initializer_list<Item> items) : Sequential() {
  for (const Item& item : items) append(item);
}

Sequential& Sequential::append(const Item& item) {
  add(item.name.empty() ? std::to_string(size()) : item.name, *item.module);
  modules_->push_back(item.module);
  return *this;
}

Tensor Sequential::forward(const Tensor& x) {
  if (modules_->empty()) return x;
  Tensor value = modules_->front()->forward(x);
  for (std::size_t i = 1; i < modules_->size(); ++i) value = (*modules_)[i]->forward(value);
  return value;
}

}  // namespace volta::nn
