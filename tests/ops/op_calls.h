// One or a few calls of every public operation, on inputs whose dtype, device and shape can be
// chosen. They are used to measure what docs/ops.md says about dtypes and backends, and to find
// which mistakes an operation detects.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volta/volta.h"

namespace volta::calls {

struct Input {
  enum class Role {
    value,  // of any dtype
    index,  // integers, 0 and 1
    mask,   // bools
  };
  Role role = Role::value;
  Shape shape;
};

using Tensors = std::vector<Tensor>;

struct Call {
  std::string op;  // the operation's name in the header
  std::vector<Input> inputs;
  std::function<Tensors(const Tensors&)> function;
  std::string result = {};  // as text, if an argument determines the result's dtype
  bool moves = false;       // operands may be on another device than the first one
};

const std::vector<Call>& all();
std::vector<const Call*> of(const std::string& op);

// Returns a computed tensor for an input.
Tensor made(const Input& input, DType dtype, Device device);
DType usual_dtype(const Input& input);  // f32, i64 or bool
Tensors usual_inputs(const Call& call, Device device);

}  // namespace volta::calls
