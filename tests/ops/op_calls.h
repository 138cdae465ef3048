// One or a few calls of every public operation, on inputs whose dtype, place and shape can be
// chosen: what docs/ops.md says about dtypes and backends is measured with them, and so is which
// mistakes an operation can notice.
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
  std::string op;  // its name in the header
  std::vector<Input> inputs;
  std::function<Tensors(const Tensors&)> function;
  std::string result = {};  // in words, where the result's dtype follows from an argument
  bool moves = false;       // operands may be on another device than the first
};

const std::vector<Call>& all();
std::vector<const Call*> of(const std::string& op);

// A tensor in memory for an input.
Tensor made(const Input& input, DType dtype, Device device);
DType usual_dtype(const Input& input);  // f32, i64 or bool
Tensors usual_inputs(const Call& call, Device device);

}  // namespace volta::calls
