// What follows a product or a convolution as part of it, where the library does that and it spares
// a pass over the result: bias, ReLU and GELU, and GELU's slope times the gradient that a product
// computes.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "backend/backend.h"
#include "core/registry.h"
#include "plan/ir.h"

namespace volta::plan {
namespace {

using graph::Node;
using graph::OpId;
using kernel::ScalarOp;

std::size_t index(int id) { return static_cast<std::size_t>(id); }

// A product or convolution with what follows it, up to the value `last`.
struct Chain {
  int product = -1, bias = -1, last = -1;
  Activation activation = Activation::None;
  int input = -1;  // of GELU: the value it is applied to; of its gradient: what that was
  bool keeps_input = false;
  std::uint64_t workspace = 0;  // of a convolution
};

// Operations that are looked for as they were recorded: their formulas are many values.
struct Recorded {
  std::map<int, int> gelu;                           // by operand: the result
  std::map<int, std::pair<int, int>> gelu_gradient;  // by gradient: the result, GELU's operand
};

class Finder {
 public:
  Finder(const std::vector<Value>& values, const std::vector<int>& uses,
         const std::vector<bool>& wanted, const Recorded& recorded)
      : values_(values), uses_(uses), wanted_(wanted), recorded_(recorded), users_(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (uses[i] == 0) continue;
      for (const int in : values[i].in) {
        if (in >= 0) users_[index(in)].push_back(static_cast<int>(i));
      }
    }
  }

  // What follows the product, an activation among it or not; `last` is -1 where that is nothing a
  // library does.
  Chain chain(int id, bool with_activation) const {
    const DType operands = at(at(id).in[0]).dtype;
    const bool halves = size_of(operands) == 2;
    if (!halves && (operands != DType::f32 || at(id).dtype != DType::f32)) return {};
    Chain chain{.product = id};
    const bool is_product = at(id).kind == ValueKind::Matmul;
    const std::int64_t columns = at(id).shape[at(id).shape.rank() - 1];
    bool rounded = at(id).dtype == operands;
    int half = halves && rounded ? id : -1;  // the last value of the operands' dtype
    for (int now = id; uses_[index(now)] == 1 && users_[index(now)].size() == 1;) {
      const int next = users_[index(now)].front();
      const Value& v = at(next);
      if (v.kind == ValueKind::Reshape) {
        if (v.shape.rank() == 0 || v.shape[v.shape.rank() - 1] != columns) break;
      } else if (v.kind == ValueKind::Cast) {
        // Rounding, and back for a ReLU, which may as well come before it.
        if (!halves || (v.dtype != operands && v.dtype != DType::f32)) break;
        rounded = rounded || v.dtype == operands;
      } else if (v.kind == ValueKind::Scalar && v.op == ScalarOp::add) {
        // A convolution of halves is one of the library's, rounded once: better after the bias.
        const bool late = chain.activation != Activation::None || (halves && rounded && is_product);
        if (chain.bias >= 0 || late) break;
        const int bias = bias_of(v.in[0] == now ? v.in[1] : v.in[0], columns, operands);
        if (bias < 0) break;
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
      // Halves are finished when they are rounded.
      const bool something = chain.bias >= 0 || chain.activation != Activation::None;
      if (something && (!halves || v.dtype == operands)) chain.last = now;
    }
    if (with_activation && half >= 0 && chain.activation == Activation::None) add_gelu(chain, half);
    return chain;
  }

  // Kernels that read the result do the same on the way.
  bool is_for_kernels(int id) const {
    if (wanted_[index(id)]) return false;
    return std::all_of(users_[index(id)].begin(), users_[index(id)].end(), [&](int user) {
      const Value& v = at(user);
      if (v.kind == ValueKind::Reshape) return is_for_kernels(user);
      if (v.is_view()) return wanted_[index(user)] || is_for_kernels(user);
      return v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast || v.is_over_rows();
    });
  }

 private:
  const Value& at(int id) const { return values_[index(id)]; }

  void add_gelu(Chain& chain, int operand) const {
    if (const auto found = recorded_.gelu.find(operand); found != recorded_.gelu.end()) {
      chain.activation = Activation::Gelu;
      chain.last = found->second;
      chain.input = operand;
    } else if (const auto gradient = recorded_.gelu_gradient.find(operand);
               gradient != recorded_.gelu_gradient.end() && chain.bias < 0) {
      chain.activation = Activation::GeluGradient;
      std::tie(chain.last, chain.input) = gradient->second;
    }
  }

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
  const std::vector<bool>& wanted_;
  const Recorded& recorded_;
  std::vector<std::vector<int>> users_;  // of values that are needed
};

// What is needed once the chains are calls: their last values need the operands of the call alone.
std::vector<bool> needed_with(const std::vector<Value>& values, const std::vector<bool>& wanted,
                              const std::vector<Chain>& chains) {
  std::vector<bool> needed = wanted;
  for (std::size_t i = values.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const Chain& chain = chains[i];
    const Operands& in = chain.last < 0 ? values[i].in : values[index(chain.product)].in;
    for (const int operand : in) {
      if (operand >= 0) needed[index(operand)] = true;
    }
    if (chain.last >= 0 && chain.bias >= 0) needed[index(chain.bias)] = true;
    if (chain.activation == Activation::GeluGradient) needed[index(chain.input)] = true;
  }
  return needed;
}

}  // namespace

void Lowering::fuse_epilogues(const graph::Batch& batch) {
  const auto is_start = [](const Value& v) {
    return (v.kind == ValueKind::Matmul && v.shape.rank() == 2) ||
           (v.kind == ValueKind::Conv &&
            static_cast<ConvStep::Kind>(v.attrs[0]) == ConvStep::Kind::Forward);
  };
  if (std::none_of(values.begin(), values.end(), is_start)) return;
  const std::vector<int> uses = count_uses(batch);
  Recorded recorded;
  for (const Node* node : batch.nodes) {
    const int result = node_values[node->index];
    if (result < 0 || uses[index(result)] == 0) continue;
    if (node->op == OpId::gelu_tanh) {
      recorded.gelu.emplace(value_of(*node->inputs[0]), result);
    } else if (node->op == OpId::formula_grad &&
               static_cast<OpId>(node->attrs[0]) == OpId::gelu_tanh) {
      const int input = value_of(*node->inputs[1]);
      if (input >= 0 && values[index(input)].dtype == node->dtype)
        recorded.gelu_gradient.emplace(value_of(*node->inputs[0]), std::pair{result, input});
    }
  }
  const std::vector<bool> wanted = wanted_values(batch);
  const Finder finder(values, uses, wanted, recorded);
  const auto takes = [&](Chain& chain) {
    const Value& v = values[index(chain.product)];
    if (v.kind == ValueKind::Conv) {
      ConvStep step = conv_of(values, v);
      step.has_bias = chain.bias >= 0;
      step.activation = chain.activation;
      const ConvSupport support = device_->backend.convolution(device_->index, step);
      chain.workspace = support.workspace_bytes;
      return support.weights ==
             (step.weight_channels_last ? ConvWeights::ChannelsLast : ConvWeights::ChannelsSecond);
    }
    const Value& left = values[index(v.in[0])];
    MatmulStep step;
    step.dtype = left.dtype;
    step.transpose_a = v.attrs[0] != 0;
    step.transpose_b = v.attrs[1] != 0;
    step.m = v.shape[0];
    step.n = v.shape[1];
    step.k = left.shape[step.transpose_a ? 0 : 1];
    step.has_bias = chain.bias >= 0;
    step.activation = chain.activation;
    step.keeps_input = chain.keeps_input;
    return device_->backend.fuses(device_->index, step);
  };
  std::vector<Chain> chains(values.size());  // at the last value of each
  const auto try_chain = [&](int product, bool with_activation) {
    Chain chain = finder.chain(product, with_activation);
    if (chain.last < 0 || uses[index(chain.last)] == 0 || finder.is_for_kernels(chain.last) ||
        !takes(chain)) {
      return false;
    }
    chains[index(chain.last)] = chain;
    return true;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int product = static_cast<int>(i);
    if (is_start(values[i]) && uses[i] > 0 && !try_chain(product, true)) try_chain(product, false);
  }
  // Of GELU, its operand is written too where somebody needs it; of its gradient, the product is
  // not, so that nobody may.
  const std::vector<bool> needed = needed_with(values, wanted, chains);
  std::vector<int> refused;
  for (Chain& chain : chains) {
    if (chain.last < 0) continue;
    chain.keeps_input = chain.activation == Activation::Gelu && needed[index(chain.input)];
    const bool fits =
        chain.activation == Activation::GeluGradient ? !needed[index(chain.product)] : takes(chain);
    if (fits) continue;
    refused.push_back(chain.product);
    chain = {};
  }
  for (const int product : refused) try_chain(product, false);
  const bool any =
      std::any_of(chains.begin(), chains.end(), [](const Chain& chain) { return chain.last >= 0; });
  if (!any) return;
  std::map<int, int> kept;  // by GELU's operand: at which value its chain is
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].keeps_input) kept.emplace(chains[i].input, static_cast<int>(i));
  }
  const std::vector<Value> before = values;
  std::map<int, int> calls;  // by chain: the call
  rebuild([&](std::size_t i, Value v, const std::vector<int>& renamed) {
    const auto now = [&](int id) { return id < 0 ? -1 : renamed[index(id)]; };
    const auto call = [&](std::size_t last) {
      const Chain& chain = chains[last];
      const auto made = calls.find(static_cast<int>(last));
      if (made != calls.end()) return made->second;
      Value product = before[index(chain.product)];
      product.in = {now(product.in[0]), now(product.in[1]), now(chain.bias), -1};
      if (chain.activation == Activation::GeluGradient) product.in[3] = now(chain.input);
      if (product.kind == ValueKind::Conv) {
        product.attrs[10] = static_cast<std::int64_t>(chain.workspace);
        product.attrs[11] = static_cast<std::int64_t>(chain.activation);
      } else {
        product.dtype = before[last].dtype;
        product.attrs[3] = static_cast<std::int64_t>(chain.activation);
      }
      return calls[static_cast<int>(last)] = insert(std::move(product)).id;
    };
    if (const auto gelu = kept.find(static_cast<int>(i)); gelu != kept.end()) {
      const int made = call(index(gelu->second));
      Value input{
          .kind = ValueKind::StepResult, .dtype = v.dtype, .shape = values[index(made)].shape};
      input.in[0] = made;
      input.number = 1;
      return reshape(insert(std::move(input)), v.shape);
    }
    if (chains[i].last < 0) return insert(std::move(v));
    return reshape({this, call(i)}, v.shape);
  });
}

}  // namespace volta::plan
