// Makes operations that follow a product or another call part of the call, if the library supports
// that and it saves a pass over the result: bias, ReLU and GELU, and the gradient of GELU in the
// product that computes the gradient it multiplies.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "plan/calls/call.h"
#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"

namespace volta::plan {
namespace {

using graph::Node;
using graph::OpId;
using kernel::ScalarOp;

// A product, or another call with an epilogue, and the operations that follow it up to `last`.
struct Chain {
  ValueId product = {}, bias = {}, last = {};
  Activation activation = Activation::None;
  ValueId input = {};  // for GELU its operand; for its gradient the operand of that GELU
  bool keeps_input = false;
  std::vector<Extent> attrs = {};  // attributes of the call with its epilogue
};

// Operations that are found by the recorded node, because their formulas consist of many values.
struct Recorded {
  std::map<int, ValueId> gelu;  // results by operand
  // The result and GELU's operand, by gradient.
  std::map<int, std::pair<ValueId, ValueId>> gelu_gradient;
};

class Finder {
 public:
  Finder(const Values& values, const PerValue<int>& uses, const PerValue<bool>& wanted,
         const Recorded& recorded)
      : values_(values), uses_(uses), wanted_(wanted), recorded_(recorded), users_(values) {
    for (const ValueId id : values.ids()) {
      if (uses[id] == 0) continue;
      for (const ValueId in : values[id].in) {
        if (!in.is_none()) users_[in].push_back(id);
      }
    }
  }

  // The chain of operations after the product, with or without an activation. `last` is none if no
  // library supports the chain.
  Chain chain(ValueId id, bool with_activation) const {
    const DType operands = at(at(id).in[0]).dtype;
    const bool halves = size_of(operands) == 2;
    if (!halves && (operands != DType::f32 || at(id).dtype != DType::f32)) return {};
    Chain chain{.product = id};
    const bool rounds_late = at(id).call->adds_bias_to_rounded();
    const Extent columns = at(id).shape[at(id).shape.rank() - 1];
    bool rounded = at(id).dtype == operands;
    ValueId half = halves && rounded ? id : ValueId::none;  // the last value of the operands' dtype
    for (ValueId now = id; uses_[now] == 1 && users_[now].size() == 1;) {
      const ValueId next = users_[now].front();
      const Value& v = at(next);
      if (v.kind == ValueKind::Reshape) {
        if (v.shape.rank() == 0 || v.shape[v.shape.rank() - 1] != columns) break;
      } else if (v.kind == ValueKind::Cast) {
        // Rounding to a half, and back to f32 before a ReLU, which may come before the rounding as
        // well.
        if (!halves || (v.dtype != operands && v.dtype != DType::f32)) break;
        rounded = rounded || v.dtype == operands;
      } else if (v.kind == ValueKind::Scalar && v.op == ScalarOp::add) {
        const bool late =
            chain.activation != Activation::None || (halves && rounded && !rounds_late);
        if (!chain.bias.is_none() || late) break;
        const ValueId bias = bias_of(v.in[0] == now ? v.in[1] : v.in[0], columns, operands);
        if (bias.is_none()) break;
        chain.bias = bias;
      } else if (v.kind == ValueKind::Scalar && v.op == ScalarOp::maximum) {
        if (!with_activation || chain.activation != Activation::None ||
            !is_zero(v.in[0] == now ? v.in[1] : v.in[0])) {
          break;
        }
        chain.activation = Activation::Relu;
      } else {
        break;
      }
      now = next;
      if (halves && v.dtype == operands) half = now;
      // A chain of halves may only end where the value is rounded.
      const bool something = !chain.bias.is_none() || chain.activation != Activation::None;
      if (something && (!halves || v.dtype == operands)) chain.last = now;
    }
    if (with_activation && !half.is_none() && chain.activation == Activation::None)
      add_gelu(chain, half);
    return chain;
  }

  // Whether only kernels read the result, which can apply the chain themselves.
  bool is_for_kernels(ValueId id) const {
    if (wanted_[id]) return false;
    return std::all_of(users_[id].begin(), users_[id].end(), [&](ValueId user) {
      const Value& v = at(user);
      if (v.kind == ValueKind::Reshape) return is_for_kernels(user);
      if (v.is_view()) return wanted_[user] || is_for_kernels(user);
      return v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast || v.is_over_rows();
    });
  }

 private:
  const Value& at(ValueId id) const { return values_[id]; }

  void add_gelu(Chain& chain, ValueId operand) const {
    if (const auto found = recorded_.gelu.find(operand); found != recorded_.gelu.end()) {
      chain.activation = Activation::Gelu;
      chain.last = found->second;
      chain.input = operand;
    } else if (const auto gradient = recorded_.gelu_gradient.find(operand);
               gradient != recorded_.gelu_gradient.end() && chain.bias.is_none()) {
      chain.activation = Activation::GeluGradient;
      std::tie(chain.last, chain.input) = gradient->second;
    }
  }

  // Returns the values that are added to every row; none if `id` is not a bias.
  ValueId bias_of(ValueId id, Extent columns, DType dtype) const {
    if (at(id).kind != ValueKind::Expand) return ValueId::none;
    id = at(id).in[0];
    const Shape& shape = at(id).shape;
    if (shape.rank() == 0 || shape.numel() != columns || shape[shape.rank() - 1] != columns)
      return ValueId::none;
    while (at(id).kind == ValueKind::Reshape) id = at(id).in[0];
    if (at(id).kind == ValueKind::Cast && at(at(id).in[0]).dtype == dtype) id = at(id).in[0];
    while (at(id).kind == ValueKind::Reshape) id = at(id).in[0];
    const ValueKind kind = at(id).kind;
    const bool in_no_memory = kind == ValueKind::Const || kind == ValueKind::Arg ||
                              kind == ValueKind::Size || kind == ValueKind::Iota;
    return at(id).dtype == dtype && !in_no_memory ? id : ValueId::none;
  }

  bool is_zero(ValueId id) const {
    while (at(id).kind == ValueKind::Expand || at(id).kind == ValueKind::Reshape) id = at(id).in[0];
    return at(id).kind == ValueKind::Const && at(id).constant == 0;
  }

  const Values& values_;
  const PerValue<int>& uses_;
  const PerValue<bool>& wanted_;
  const Recorded& recorded_;
  PerValue<std::vector<ValueId>> users_;  // for needed values only
};

// The values that are needed once the chains are calls: a chain's last value then needs only the
// operands of the call.
PerValue<bool> needed_with(const Values& values, const PerValue<bool>& wanted,
                           const PerValue<Chain>& chains) {
  PerValue<bool> needed = wanted;
  for (const ValueId id : values.ids().backwards()) {
    if (!needed[id]) continue;
    const Chain& chain = chains[id];
    const Operands& in = chain.last.is_none() ? values[id].in : values[chain.product].in;
    for (const ValueId operand : in) {
      if (!operand.is_none()) needed[operand] = true;
    }
    if (!chain.last.is_none() && !chain.bias.is_none()) needed[chain.bias] = true;
    if (chain.activation == Activation::GeluGradient) needed[chain.input] = true;
  }
  return needed;
}

bool is_start(const Value& v) { return v.call != nullptr && v.call->can_have_epilogue(v); }

Recorded recorded_gelus(const Graph& graph, const PerValue<int>& uses) {
  Recorded recorded;
  for (const Node* node : graph.view->nodes()) {
    const ValueId result = graph.value_of(*node);
    if (result.is_none() || uses[result] == 0) continue;
    if (node->op == OpId::gelu_tanh) {
      recorded.gelu.emplace(graph.value_of(*node->inputs[0]), result);
    } else if (node->op == OpId::formula_grad &&
               static_cast<OpId>(node->attrs[0]) == OpId::gelu_tanh) {
      const ValueId input = graph.value_of(*node->inputs[1]);
      if (!input.is_none() && graph.values[input].dtype == node->dtype)
        recorded.gelu_gradient.emplace(graph.value_of(*node->inputs[0]), std::pair{result, input});
    }
  }
  return recorded;
}

// Whether the library supports the chain; sets the attributes of the call.
bool library_takes(const Graph& graph, Chain& chain) {
  const Value& v = graph.values[chain.product];
  auto attrs = v.call->with_epilogue(
      graph.values, v, {!chain.bias.is_none(), chain.activation, chain.keeps_input}, *graph.device);
  if (attrs) chain.attrs = std::move(*attrs);
  return attrs.has_value();
}

// Finds the chains that become calls, each stored at its last value.
PerValue<Chain> find_chains(const Graph& graph) {
  const Values& values = graph.values;
  const PerValue<int> uses = count_uses(graph);
  const Recorded recorded = recorded_gelus(graph, uses);
  const PerValue<bool> wanted = wanted_values(graph);
  const Finder finder(values, uses, wanted, recorded);
  PerValue<Chain> chains(values);
  const auto try_chain = [&](ValueId product, bool with_activation) {
    Chain chain = finder.chain(product, with_activation);
    if (chain.last.is_none() || uses[chain.last] == 0 || finder.is_for_kernels(chain.last) ||
        !library_takes(graph, chain)) {
      return false;
    }
    chains[chain.last] = chain;
    return true;
  };
  for (const ValueId id : values.ids()) {
    if (is_start(values[id]) && uses[id] > 0 && !try_chain(id, true)) try_chain(id, false);
  }
  // GELU's operand is a second result of the call if something needs it. The product inside the
  // gradient of GELU is not written at all, so nothing may need it.
  const PerValue<bool> needed = needed_with(values, wanted, chains);
  std::vector<ValueId> refused;
  for (Chain& chain : chains) {
    if (chain.last.is_none()) continue;
    chain.keeps_input = chain.activation == Activation::Gelu && needed[chain.input];
    const bool fits = chain.activation == Activation::GeluGradient ? !needed[chain.product]
                                                                   : library_takes(graph, chain);
    if (fits) continue;
    refused.push_back(chain.product);
    chain = {};
  }
  for (const ValueId product : refused) try_chain(product, false);
  return chains;
}

// Builds the call of a chain, with the operations as its epilogue.
Value fused_call(const Rebuild& all, const Chain& chain) {
  const auto now = [&](ValueId id) { return id.is_none() ? id : all.renamed[id]; };
  Value call = all.before[chain.product];
  call.in = {now(call.in[0]), now(call.in[1]), now(chain.bias)};
  if (chain.activation == Activation::GeluGradient) call.in[3] = now(chain.input);
  call.dtype = all.before[chain.last].dtype;
  call.attrs = chain.attrs;
  return call;
}

}  // namespace

void fuse_epilogues(Graph& graph) {
  if (std::none_of(graph.values.begin(), graph.values.end(), is_start)) return;
  const PerValue<Chain> chains = find_chains(graph);
  const bool any = std::any_of(chains.begin(), chains.end(),
                               [](const Chain& chain) { return !chain.last.is_none(); });
  if (!any) return;
  std::map<int, ValueId> kept;  // by GELU's operand, the last value of its chain
  for (const Chain& chain : chains) {
    if (chain.keeps_input) kept.emplace(chain.input, chain.last);
  }
  std::map<int, Expr> calls;  // by the last value of the chain
  rebuild(graph, [&](Rebuild& all, ValueId id, Value v) {
    ValueBuilder& builder = all.builder;
    const auto call = [&](ValueId last) {
      const auto made = calls.find(last);
      if (made != calls.end()) return made->second;
      return calls[last] = builder.insert(fused_call(all, chains[last]));
    };
    if (const auto gelu = kept.find(id); gelu != kept.end()) {
      const Expr made = call(gelu->second);
      Value input{.kind = ValueKind::StepResult, .dtype = v.dtype, .shape = made.shape()};
      input.in[0] = made.id;
      input.number = 1;
      return builder.reshape(builder.insert(std::move(input)), v.shape);
    }
    if (chains[id].last.is_none()) return builder.insert(std::move(v));
    return builder.reshape(call(id), v.shape);
  });
}

}  // namespace volta::plan
