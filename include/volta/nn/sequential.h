// Sequential and ModuleList: lists of modules under numbers or names.
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
[[noreturn]] VOLTA_API void throw_no_module(const char* list, std::size_t position,
                                            std::size_t size);
}  // namespace detail

// Calls its modules one after the other.
class VOLTA_API Sequential : public Module {
 public:
  // A module of the list, with a name or, by default, its position.
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
  // For Sequentials inside of one, even a single one. Without this constructor some compilers treat
  // Sequential({inner}) as a copy of `inner`, as they do with Sequential{inner}.
  template <std::derived_from<Sequential> S>
  Sequential(std::initializer_list<S> modules) : Sequential() {
    for (const S& module : modules) append(module);
  }

  template <std::derived_from<Module> M>
  Sequential& append(const M& module) {
    return append(Item(module));
  }
  template <std::derived_from<Module> M>
  Sequential& append(std::string name, const M& module) {
    return append(Item(std::move(name), module));
  }

  // Replaces the module at this position and keeps its name. Optimizers made before keep the former
  // parameters.
  template <std::derived_from<Module> M>
  Sequential& replace(std::size_t position, const M& module) {
    return replace(position, detail::AnyModule(module));
  }
  using Module::replace;

  std::size_t size() const { return items_->size(); }
  Module& operator[](std::size_t position) const;  // throws ArgumentError past the end
  using Module::operator();
  Tensor forward(const Tensor& x) override;

 private:
  Sequential& append(Item item);
  Sequential& replace(std::size_t position, detail::AnyModule module);

  detail::Shared<std::vector<Item>> items_;
};

// A list of modules of class M, or derived from it, that the owner of the list calls.
template <std::derived_from<Module> M>
class ModuleList : public Module {
 public:
  // A module of the list.
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
    if (position >= size()) detail::throw_no_module("ModuleList", position, size());
    return static_cast<M&>(*(*modules_)[position]);
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
