// Module::Watch: observes the calls of modules for a summary.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nn/module_state.h"
#include "volta/nn/module.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::nn {

// The calls that this thread makes while a summary is computed.
class [[gnu::visibility("hidden")]] Module::Watch {
 public:
  struct Calls {
    std::string kind;  // kind of the called module
    std::vector<Shape> outputs;
    std::int64_t operations = 0;
    std::int64_t parameters = 0;
  };

  // `held` lists the module's tensors, which count as given even if they were not computed yet.
  explicit Watch(std::vector<Tensor> held) : outer_(current_), given_(std::move(held)) {
    current_ = this;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { current_ = outer_; }

  static Watch* current() { return current_; }

  void called(const Module& module, std::span<const Tensor> inputs,
              std::span<const Tensor> outputs);
  const Calls* find(const State* state) const {
    const auto found = calls_.find(state);
    return found == calls_.end() ? nullptr : &found->second;
  }
  // Modules with parameters that were called but are not among the known ones.
  std::vector<std::string> strays(const std::set<const State*>& known) const;

 private:
  static constinit thread_local Watch* current_;
  Watch* outer_;
  std::vector<Tensor> given_;
  std::map<const State*, Calls> calls_;
};

}  // namespace volta::nn
