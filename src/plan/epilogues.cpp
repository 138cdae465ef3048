// Bias and ReLU after a product, as part of the product where the library does that: the result is
// written once, finished.
#include <algorithm>

#include "backend/backend.h"
#include "core/registry.h"
#include "plan/ir.h"

namespace volta::plan {
namespace {

using kernel::ScalarOp;

// A product with what follows it, up to the value `last`.
struct Chain {
  int product = -1, bias = -1, last = -1;
  bool relu = false;
};

class Finder {
 public:
  Finder(const std::vector<Value>& values, const std::vector<int>& uses)
      : values_(values), uses_(uses), user_(values.size(), -1) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (const int in : values[i].in) {
        if (in >= 0) user_[static_cast<std::size_t>(in)] = static_cast<int>(i);
      }
    }
  }

  // What follows the product, a ReLU among it or not; `last` is -1 where that is nothing a library
  // does.
  Chain chain(int id, bool with_relu) const {
    const DType operands = at(at(id).in[0]).dtype, result = at(id).dtype;
    const bool halves = size_of(operands) == 2;
    if (result != DType::f32 || (!halves && operands != DType::f32)) return {};
    Chain chain{.product = id};
    const std::int64_t columns = at(id).shape[1];
    bool rounded = false;
    for (int now = id; uses_[index(now)] == 1 && user_[index(now)] >= 0;) {
      const int next = user_[index(now)];
      const Value& v = at(next);
      if (v.kind == ValueKind::Reshape) {
        if (v.shape.rank() == 0 || v.shape[v.shape.rank() - 1] != columns) break;
      } else if (v.kind == ValueKind::Cast) {
        // Rounding, and back for a ReLU, which may as well come before it.
        if (!halves || (v.dtype != operands && v.dtype != DType::f32)) break;
        rounded = rounded || v.dtype == operands;
      } else if (v.kind == ValueKind::Scalar && v.op == ScalarOp::add) {
        if (chain.bias >= 0 || chain.relu || rounded) break;
        const int bias = bias_of(v.in[0] == now ? v.in[1] : v.in[0], columns, operands);
        if (bias < 0) break;
        chain.bias = bias;
      } else if (v.kind == ValueKind::Scalar && v.op == ScalarOp::maximum) {
        if (!with_relu || chain.relu || !is_zero(v.in[0] == now ? v.in[1] : v.in[0])) break;
        chain.relu = true;
      } else {
        break;
      }
      now = next;
      // Halves are finished when they are rounded.
      if ((chain.bias >= 0 || chain.relu) && (!halves || v.dtype == operands)) chain.last = now;
    }
    return chain;
  }

 private:
  static std::size_t index(int id) { return static_cast<std::size_t>(id); }
  const Value& at(int id) const { return values_[index(id)]; }

  // The values that are added to every row; -1 if it is something else.
  int bias_of(int id, std::int64_t columns, DType dtype) const {
    if (at(id).kind != ValueKind::Expand) return -1;
    id = at(id).in[0];
    const Shape& shape = at(id).shape;
    if (shape.rank() == 0 || shape.numel() != columns || shape[shape.rank() - 1] != columns)
      return -1;
    while (at(id).kind == ValueKind::Reshape) id = at(id).in[0];
    if (at(id).kind == ValueKind::Cast && at(at(id).in[0]).dtype == dtype) id = at(id).in[0];
    while (at(id).kind == ValueKind::Reshape) id = at(id).in[0];
    const ValueKind kind = at(id).kind;
    const bool in_no_memory = kind == ValueKind::Const || kind == ValueKind::Arg ||
                              kind == ValueKind::Size || kind == ValueKind::Iota;
    return at(id).dtype == dtype && !in_no_memory ? id : -1;
  }

  bool is_zero(int id) const {
    while (at(id).kind == ValueKind::Expand || at(id).kind == ValueKind::Reshape) id = at(id).in[0];
    return at(id).kind == ValueKind::Const && at(id).constant == 0;
  }

  const std::vector<Value>& values_;
  const std::vector<int>& uses_;
  std::vector<int> user_;  // of values with one use: who
};

}  // namespace

void Lowering::fuse_epilogues(const graph::Batch& batch) {
  const bool products = std::any_of(values.begin(), values.end(), [](const Value& v) {
    return v.kind == ValueKind::Matmul && v.shape.rank() == 2;
  });
  if (!products) return;
  const std::vector<int> uses = count_uses(batch);
  const Finder finder(values, uses);
  const auto takes = [&](const Value& v, const Chain& chain) {
    const Value& left = values[static_cast<std::size_t>(v.in[0])];
    MatmulStep step;
    step.dtype = left.dtype;
    step.transpose_a = v.attrs[0] != 0;
    step.transpose_b = v.attrs[1] != 0;
    step.m = v.shape[0];
    step.n = v.shape[1];
    step.k = left.shape[step.transpose_a ? 0 : 1];
    step.has_bias = chain.bias >= 0;
    step.relu = chain.relu;
    return device_->backend.fuses(device_->index, step);
  };
  std::vector<Chain> chains(values.size());  // at the last value of each
  bool any = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& v = values[i];
    if (v.kind != ValueKind::Matmul || v.shape.rank() != 2) continue;
    const auto fused = [&](bool with_relu) {
      const Chain chain = finder.chain(static_cast<int>(i), with_relu);
      return chain.last >= 0 && takes(v, chain) ? chain : Chain{};
    };
    Chain chain = fused(true);
    if (chain.last < 0) chain = fused(false);
    if (chain.last < 0) continue;
    chains[static_cast<std::size_t>(chain.last)] = chain;
    any = true;
  }
  if (!any) return;
  const std::vector<Value> before = values;
  rebuild([&](std::size_t i, Value v, const std::vector<int>& renamed) {
    const Chain& chain = chains[i];
    if (chain.product < 0) return insert(std::move(v));
    const auto now = [&](int id) { return id < 0 ? -1 : renamed[static_cast<std::size_t>(id)]; };
    Value product = before[static_cast<std::size_t>(chain.product)];
    product.in = {now(product.in[0]), now(product.in[1]), now(chain.bias)};
    product.dtype = v.dtype;
    product.attrs[3] = chain.relu;
    return reshape(insert(std::move(product)), v.shape);
  });
}

}  // namespace volta::plan
