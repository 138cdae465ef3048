// Sequential and ModuleList: modules under numbers or names.
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

namespace detail {
// Throws ArgumentError, naming the class of the list, past the end.
VOLTA_API const AnyModule& module_at(const char* list, const std::vector<AnyModule>& modules,
                                     std::size_t position);
}  // namespace detail

// Modules one after the other.
class VOLTA_API Sequential : public Module {
 public:
  // One module of the list, with its name or, without one, under its position.
  struct Item {
    template <std::derived_from<Module> M>
    Item(const M& m) : module(m) {}  // NOLINT: implicit on purpose
    template <std::derived_from<Module> M>
    Item(std::string n, const M& m) : name(std::move(n)), module(m) {}

    std::string name;
    detail::AnyModule module;
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
  Module& operator[](std::size_t position) const;  // throws ArgumentError past the end
  using Module::operator();
  Tensor forward(const Tensor& x) override;

 private:
  Sequential& append(const Item& item);

  detail::Shared<std::vector<detail::AnyModule>> modules_;
};

// Modules under their positions, of class M or derived from it, called by whoever holds the list.
template <std::derived_from<Module> M>
class ModuleList : public Module {
 public:
  // One module of the list.
  struct Item {
    template <std::derived_from<M> D>
    Item(const D& m) : module(m) {}  // NOLINT: implicit on purpose
    detail::AnyModule module;
  };
  class Iterator {
   public:
    using value_type = M;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    explicit Iterator(std::vector<detail::AnyModule>::const_iterator at) : at_(at) {}
    M& operator*() const { return static_cast<M&>(**at_); }
    M* operator->() const { return &**this; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    bool operator==(const Iterator&) const = default;

   private:
    std::vector<detail::AnyModule>::const_iterator at_;
  };

  ModuleList() : modules_(std::make_shared<std::vector<detail::AnyModule>>()) {}
  ModuleList(std::initializer_list<Item> items) : ModuleList() {
    for (const Item& item : items) append(item);
  }

  template <std::derived_from<M> D>
  ModuleList& append(const D& module) {
    return append(Item(module));
  }

  std::size_t size() const { return modules_->size(); }
  M& operator[](std::size_t position) const {  // throws ArgumentError past the end
    return static_cast<M&>(*detail::module_at("ModuleList", *modules_, position));
  }
  Iterator begin() const { return Iterator(modules_->begin()); }
  Iterator end() const { return Iterator(modules_->end()); }

 private:
  ModuleList& append(const Item& item) {
    add(std::to_string(size()), item.module);
    modules_->push_back(item.module);
    return *this;
  }

  detail::Shared<std::vector<detail::AnyModule>> modules_;
};

}  // namespace volta::nn
