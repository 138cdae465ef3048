// Sequential: modules one after the other.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "volta/nn/module.h"

namespace volta::nn {

class VOLTA_API Sequential : public Module {
 public:
  // One module of the list, with its name or, without one, under its position.
  struct Item {
    template <std::derived_from<Module> M>
    Item(const M& m) : module(std::make_shared<M>(m)) {}  // NOLINT: implicit on purpose
    template <std::derived_from<Module> M>
    Item(std::string n, const M& m) : name(std::move(n)), module(std::make_shared<M>(m)) {}

    std::string name;
    std::shared_ptr<Module> module;
  };

  Sequential();
  Sequential(std::initializer_list<Item> items);

  template <std::derived_from<Module> M>
  Sequential& append(const M& module) {
    return append(Item(module));
  }
  template <std::derived_from<Module> M>
  Sequential& append(std::string name, const M& module) {
    return append(Item(std::move(name), module));
  }

  std::size_t size() const { return modules_->size(); }
  Tensor forward(const Tensor& x) override;

 private:
  Sequential& append(const Item& item);

  std::shared_ptr<std::vector<std::shared_ptr<Module>>>
      modules_;  // shared by copies, as all state is
};

}  // namespace volta::nn
