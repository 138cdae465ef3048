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

// A module of any class, kept by value.
class AnyModule {
 public:
  template <std::derived_from<Module> M>
  explicit AnyModule(const M& module)
      : module_(std::make_shared<M>(module)), copy_([](const Module& other) {
          return std::shared_ptr<Module>(std::make_shared<M>(static_cast<const M&>(other)));
        }) {}
  AnyModule(const AnyModule& other)
      : module_(Cloning::current() ? other.copy_(*other.module_) : other.module_),
        copy_(other.copy_) {}
  AnyModule(AnyModule&& other) noexcept = default;
  AnyModule& operator=(AnyModule other) noexcept {
    module_ = std::move(other.module_);
    copy_ = other.copy_;
    return *this;
  }
  ~AnyModule() = default;

  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }

 private:
  std::shared_ptr<Module> module_;
  std::shared_ptr<Module> (*copy_)(const Module&);
};

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

// Modules of one class under their positions, called by whoever holds the list.
template <std::derived_from<Module> M>
class ModuleList : public Module {
 public:
  ModuleList() : modules_(std::make_shared<std::vector<M>>()) {}
  ModuleList(std::initializer_list<M> modules) : ModuleList() {
    for (const M& module : modules) append(module);
  }

  ModuleList& append(const M& module) {
    add(std::to_string(size()), module);
    modules_->push_back(module);
    return *this;
  }

  std::size_t size() const { return modules_->size(); }
  M& operator[](std::size_t position) const { return modules_->at(position); }
  auto begin() const { return modules_->begin(); }
  auto end() const { return modules_->end(); }

 private:
  detail::Shared<std::vector<M>> modules_;
};

}  // namespace volta::nn
