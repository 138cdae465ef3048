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

[[noreturn]] VOLTA_API void throw_no_module(const char* list, std::size_t position,
                                            std::size_t size);

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
  // Sequentials inside one, also a single one: without this some compilers would take
  // Sequential({inner}) for a copy of `inner`, as they do with Sequential{inner}.
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

  // Puts `module` in place of the one at that position, under its name. Optimizers built before
  // keep the former parameters.
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
  M& operator[](std::size_t position) const {  // throws ArgumentError past the end
    if (position >= size()) detail::throw_no_module("ModuleList", position, size());
    return (*modules_)[position];
  }
  auto begin() const { return modules_->begin(); }
  auto end() const { return modules_->end(); }

 private:
  detail::Shared<std::vector<M>> modules_;
};

}  // namespace volta::nn
