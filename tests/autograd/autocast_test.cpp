// Autocast: the dtypes that operations take and return in a scope, the number of conversions, and
// where scopes begin and end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graph/record/autocast.h"
#include "graph/record/observer.h"
#include "graph/record/op.h"
#include "ops/op_calls.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using graph::AutocastRule;
using graph::OpId;

TensorOptions on_device(DType dtype = DType::f32, bool requires_grad = false) {
  return {.dtype = dtype, .device = test_device(), .requires_grad = requires_grad};
}

// Observes what this thread records.
class Watcher final : public graph::RecordingObserver {
 public:
  Watcher() : before_(graph::recording_observer()) { graph::recording_observer() = this; }
  ~Watcher() override { graph::recording_observer() = before_; }
  void recorded(OpId op, std::span<const graph::Borrowed> inputs, Tensor& result,
                SourceLocation) override {
    seen.push_back({op, inputs[0].node()->dtype, result.dtype()});
  }
  void differentiated(const graph::Tape&, std::size_t, Tensor&) override {}

  struct Seen {
    OpId op;
    DType from, to;
  };
  std::vector<Seen> seen;
  int casts_to(DType dtype) const {
    return static_cast<int>(std::count_if(seen.begin(), seen.end(), [&](const Seen& s) {
      return s.op == OpId::cast && s.from == DType::f32 && s.to == dtype;
    }));
  }

 private:
  graph::RecordingObserver* before_;
};

const graph::Op& row_of(OpId id) { return graph::op_table.at(static_cast<std::size_t>(id)); }

DType expected(AutocastRule rule, DType scope, DType own) {
  if (!is_floating(own) || own == DType::f64) return own;
  switch (rule) {
    case AutocastRule::product:
      return scope;
    case AutocastRule::full:
      return DType::f32;
    default:
      return own;
  }
}

TEST(Autocast, EveryOperationFollowsItsRule) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "dtypes do not depend on devices";
  std::set<OpId> ruled;
  for (const DType scope : {DType::bf16, DType::f16}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const calls::Call& call : calls::all()) {
        SCOPED_TRACE(call.op + " of " + std::string(name_of(dtype)) + " in " +
                     std::string(name_of(scope)));
        calls::Tensors inputs;
        for (const calls::Input& input : call.inputs) {
          const bool is_value = input.role == calls::Input::Role::value;
          inputs.push_back(
              calls::made(input, is_value ? dtype : calls::usual_dtype(input), test_device()));
        }
        const Watcher watcher;
        {
          const Autocast amp(scope);
          try {
            call.function(inputs);
          } catch (const DTypeError&) {
            // Operands of another dtype; f32 turns autocast off.
            const Autocast off(DType::f32);
            EXPECT_THROW(call.function(inputs), DTypeError);
            continue;
          }
        }
        for (const Watcher::Seen& seen : watcher.seen) {
          const AutocastRule rule = row_of(seen.op).autocast;
          if (rule == AutocastRule::none) continue;
          ruled.insert(seen.op);
          EXPECT_EQ(seen.from, expected(rule, scope, seen.from)) << row_of(seen.op).name;
          EXPECT_EQ(seen.to, expected(rule, scope, seen.to)) << row_of(seen.op).name;
        }
      }
    }
  }
  std::string missing;
  for (const graph::Op& op : graph::op_table) {
    if (op.autocast != AutocastRule::none && ruled.count(op.id) == 0)
      missing += std::string(" ") + op.name;
  }
  EXPECT_EQ(missing, "");
}

Tensor image(const Tensor& matrix) { return matrix.unsqueeze(0).unsqueeze(0); }

// The dtypes of results, by PyTorch's lists.
TEST(Autocast, ResultsByClass) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "dtypes do not depend on devices";
  using Function = std::function<Tensor(const Tensor&)>;
  const std::map<std::string, Function> products{
      {"matmul", [](const Tensor& x) { return matmul(x, x.t()); }},
      {"linear", [](const Tensor& x) { return linear(x, x); }},
      {"einsum", [](const Tensor& x) { return einsum("ij,kj->ik", {x, x}); }},
      {"bmm", [](const Tensor& x) { return bmm(x.unsqueeze(0), x.t().unsqueeze(0)); }},
      {"matmul of vectors", [](const Tensor& x) { return matmul(x.flatten(), x.flatten()); }},
      {"einsum of one", [](const Tensor& x) { return einsum("ij->i", {x}); }},
      {"conv1d", [](const Tensor& x) { return conv1d(x.unsqueeze(0), x.unsqueeze(2)); }},
      {"attention", [](const Tensor& x) { return scaled_dot_product_attention(x, x, x); }},
  };
  const std::map<std::string, Function> full{
      {"exp", [](const Tensor& x) { return x.exp(); }},
      {"log", [](const Tensor& x) { return x.log(); }},
      {"pow", [](const Tensor& x) { return pow(x, 2.5); }},
      {"number to the power", [](const Tensor& x) { return pow(2.3, x); }},
      {"number by a tensor", [](const Tensor& x) { return 2.3 / x; }},
      {"softplus", [](const Tensor& x) { return softplus(x, 0.7); }},
      {"sum", [](const Tensor& x) { return x.sum(0); }},
      {"mean", [](const Tensor& x) { return x.mean(); }},
      {"prod", [](const Tensor& x) { return x.prod(); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"norm", [](const Tensor& x) { return x.norm(3); }},
      {"softmax", [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 1); }},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, {3}); }},
      {"group_norm", [](const Tensor& x) { return group_norm(x, 3); }},
      {"l1_loss", [](const Tensor& x) { return l1_loss(x, x); }},
      {"smooth_l1_loss", [](const Tensor& x) { return smooth_l1_loss(x, x); }},
      {"huber_loss", [](const Tensor& x) { return huber_loss(x, x); }},
      {"binary_cross_entropy", [](const Tensor& x) { return binary_cross_entropy(x, x); }},
      {"binary_cross_entropy_with_logits",
       [](const Tensor& x) {
         return binary_cross_entropy_with_logits(x, x, {.weight = x[0], .pos_weight = x});
       }},
      {"kl_div", [](const Tensor& x) { return kl_div(x, x, {.log_target = true}); }},
      {"gaussian_kl", [](const Tensor& x) { return gaussian_kl(x, x); }},
      {"cross_entropy, probabilities",
       [](const Tensor& x) { return cross_entropy(x, x, {.weight = x[0]}); }},
      {"nll_loss",
       [](const Tensor& x) {
         return nll_loss(x, zeros({3}, {.dtype = DType::i64, .device = test_device()}));
       }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, 1); }},
      {"repeated pixels", [](const Tensor& x) { return interpolate(image(x), {.size = 6}); }},
      {"nearest", [](const Tensor& x) { return interpolate(image(x), {.size = 5}); }},
      {"bilinear",
       [](const Tensor& x) {
         return interpolate(image(x), {.size = 5, .mode = InterpolateMode::bilinear});
       }},
      // Operations that Volta adds to PyTorch's lists.
      {"exp2", [](const Tensor& x) { return exp2(x); }},
      {"var", [](const Tensor& x) { return var(x, 0); }},
      {"std", [](const Tensor& x) { return std(x, 0); }},
      {"mse_loss", [](const Tensor& x) { return mse_loss(x, x); }},
      {"cross_entropy",
       [](const Tensor& x) {
         return cross_entropy(x, zeros({3}, {.dtype = DType::i64, .device = test_device()}));
       }},
  };
  const std::map<std::string, Function> own{
      {"add", [](const Tensor& x) { return x + x; }},
      {"dot", [](const Tensor& x) { return dot(x.flatten(), x.flatten()); }},
      {"outer", [](const Tensor& x) { return outer(x.flatten(), x.flatten()); }},
      {"atan2", [](const Tensor& x) { return atan2(x, x); }},
      {"addcmul", [](const Tensor& x) { return addcmul(x, x, x); }},
      {"addcdiv", [](const Tensor& x) { return addcdiv(x, x, x); }},
      {"batch_norm", [](const Tensor& x) { return batch_norm(x, {}, {}); }},
      {"instance_norm", [](const Tensor& x) { return instance_norm(x.unsqueeze(0)); }},
      {"average", [](const Tensor& x) { return adaptive_avg_pool2d(image(x), 2); }},
      {"scatter_add",
       [](const Tensor& x) {
         return scatter_add(x, 0, zeros({3, 3}, {.dtype = DType::i64, .device = test_device()}), x);
       }},
      {"number", [](const Tensor& x) { return x * 1.5 / 3.3 + 1; }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"tanh", [](const Tensor& x) { return x.tanh(); }},
      {"max", [](const Tensor& x) { return x.max(0); }},
      {"reshape", [](const Tensor& x) { return x.reshape({9}); }},
      {"concat", [](const Tensor& x) { return concat({x, x}); }},
      {"dropout", [](const Tensor& x) { return dropout(x, 0.5); }},
  };
  for (const DType scope : {DType::bf16, DType::f16}) {
    const Autocast amp(scope);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const Tensor x = full_like(zeros({3, 3}, on_device(dtype)), 0.5);
      const bool f64 = dtype == DType::f64;
      for (const auto& [name, function] : products)
        EXPECT_EQ(function(x).dtype(), f64 ? dtype : scope) << name << " of " << name_of(dtype);
      for (const auto& [name, function] : full)
        EXPECT_EQ(function(x).dtype(), f64 ? dtype : DType::f32) << name << name_of(dtype);
      for (const auto& [name, function] : own)
        EXPECT_EQ(function(x).dtype(), dtype) << name << " of " << name_of(dtype);
    }
    const Tensor half = ones({3, 3}, on_device(scope)), single = ones({3, 3}, on_device());
    EXPECT_EQ((half + single).dtype(), DType::f32);
    EXPECT_EQ(linear(half, single, ones({3}, on_device())).dtype(), scope);
    EXPECT_EQ(layer_norm(half, {3}, ones({3}, on_device())).dtype(), DType::f32);
    EXPECT_EQ(group_norm(half, 3, ones({3}, on_device())).dtype(), DType::f32);
    EXPECT_EQ(group_norm(single, 3, ones({3}, on_device(scope))).dtype(), DType::f32);
    EXPECT_EQ(mse_loss(half, single).dtype(), DType::f32);
    EXPECT_EQ(l1_loss(single, half).dtype(), DType::f32);
    EXPECT_EQ(binary_cross_entropy(half, half, {.weight = single}).dtype(), DType::f32);
    EXPECT_EQ(cross_entropy(half, single).dtype(), DType::f32);
    EXPECT_EQ(dot(half.flatten(), single.flatten()).dtype(), DType::f32);
    const Tensor at = zeros({3, 3}, on_device(DType::i64));
    EXPECT_EQ(scatter_add(half, 0, at, single).dtype(), DType::f32);
    EXPECT_EQ(scatter_add(single, 0, at, half).dtype(), DType::f32);
    EXPECT_EQ(pow(half, single).dtype(), DType::f32);
    EXPECT_EQ(
        scaled_dot_product_attention(half, single, single, {.mask = zeros({3, 3}, on_device())})
            .dtype(),
        scope);
    EXPECT_EQ(matmul(single, zeros({3, 3}, on_device(DType::f64))).dtype(), DType::f64);
    const Tensor integers = ones({3, 3}, on_device(DType::i64));
    EXPECT_EQ(matmul(integers, integers).dtype(), DType::i64);
    EXPECT_EQ(integers.sum().dtype(), DType::i64);
  }
}

// Numbers beside halves are not rounded to them, and neither are sums of halves.
TEST(Autocast, FullPrecisionIsFull) {
  const Autocast amp(DType::bf16);
  const Tensor x = full({1000}, 3.0, on_device(DType::bf16));
  EXPECT_FLOAT_EQ(static_cast<float>(pow(x, 1.003).max().item()), std::pow(3.0f, 1.003f));
  EXPECT_EQ((x + 0.015625).sum().item(), 1000 * 3.015625);
  EXPECT_NEAR(x.exp().max().item(), std::exp(3.0), 1e-5);
}

TEST(Autocast, ParametersAreConvertedOnceForANest) {
  nn::Linear layer(8, 8);
  layer.to(test_device());
  const Tensor x = ones({4, 8}, on_device(DType::bf16));
  const Watcher watcher;
  Tensor loss;
  {
    const Autocast amp(DType::bf16);
    loss = layer(layer(x)).sum();
    {
      const Autocast inner(DType::bf16);
      loss = loss + layer(x).sum();
    }
    loss = loss + layer(x).sum();
    EXPECT_EQ(watcher.casts_to(DType::bf16), 2);  // weight and bias
    loss.backward();
    // Another forward and backward pass in the scope, with a new history.
    layer(x).sum().backward();
    EXPECT_EQ(watcher.casts_to(DType::bf16), 2);
  }
  for (const Tensor& parameter : layer.parameters())
    EXPECT_EQ(parameter.grad().dtype(), DType::f32);
  const std::vector<float> bias = layer.parameters()[1].grad().to_vector<float>();
  EXPECT_GT(bias[0], 0);
  {
    const Autocast amp(DType::bf16);
    layer(x).eval();
  }
  EXPECT_EQ(watcher.casts_to(DType::bf16), 4) << "a new nest converts anew";
}

TEST(Autocast, AChangedParameterIsConvertedAgain) {
  Tensor weight = ones({2, 2}, on_device(DType::f32, true));
  const Tensor x = ones({1, 2}, on_device());
  const Autocast amp(DType::bf16);
  EXPECT_EQ(linear(x, weight).max().item(), 2);
  {
    const NoGrad no_grad;
    weight.fill_(3);
  }
  EXPECT_EQ(linear(x, weight).max().item(), 6);
  // First under NoGrad: the history is recorded at the next use.
  {
    const NoGrad no_grad;
    weight.fill_(4);
    EXPECT_FALSE(linear(x, weight).requires_grad());
  }
  linear(x, weight).sum().backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
}

// In a long scope, leaves that are destroyed are not kept alive, and neither are their conversions.
TEST(Autocast, LeavesThatAreGoneAreForgotten) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "nothing of it is the device's";
  const Tensor x = randn({1, 64}, on_device()).eval(), base = randn({64, 64}, on_device()).eval();
  const Tensor stays = base.clone().set_requires_grad().eval();
  const Autocast amp(DType::bf16);
  const auto use = [&](const Tensor& leaf) { linear(x, leaf).eval(); };
  std::uint64_t first = 0;
  for (int i = 0; i < 1000; ++i) {
    use((base + (3.5 + i)).set_requires_grad().eval());
    use(stays);
    ASSERT_EQ(graph::kept_casts(), 1u) << "after " << i;
    if (i == 9) first = memory_stats(test_device()).in_use;
  }
  EXPECT_EQ(memory_stats(test_device()).in_use, first);
  const Watcher watcher;
  use(stays);
  EXPECT_EQ(watcher.casts_to(DType::bf16), 1) << "only of x";
}

// Leaves that another thread destroys are not kept alive either.
TEST(Autocast, LeavesThatEndElsewhereAreForgotten) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "nothing of it is the device's";
  const Tensor x = ones({1, 2}, on_device()).eval();
  const Autocast amp(DType::bf16);
  std::size_t most = 0;
  for (int i = 0; i < 10; ++i) {
    std::vector<Tensor> leaves;
    for (int k = 0; k < 100; ++k) {
      leaves.push_back(full({2, 2}, 1.0 + k, on_device(DType::f32, true)).eval());
      EXPECT_EQ(linear(x, leaves.back()).max().item(), 2.0 * (1 + k));
    }
    most = std::max(most, graph::kept_casts());
    std::thread([gone = std::move(leaves)]() mutable { gone.clear(); }).join();
  }
  EXPECT_GE(most, 100u);
  EXPECT_LE(most, 400u) << "of 1,000";
}

TEST(Autocast, OneConversionOfEachParameterAStep) {
  nn::Sequential model({{"a", nn::Linear(64, 64)}, {"r", nn::ReLU()}, {"b", nn::Linear(64, 64)}});
  model.to(test_device());
  optim::Adam optimizer(model.parameters());
  const Tensor x = randn({64, 64}, on_device()).eval();
  const auto step = [&] {
    const Autocast amp(DType::bf16);
    optimizer.zero_grad();
    model(x).square().mean().backward();
    optimizer.step();
  };
  step();
  step();
  const Watcher watcher;
  step();
  // Four parameters and x; the first layer's result is already a half.
  EXPECT_EQ(watcher.casts_to(DType::bf16), 5);
}

TEST(Autocast, ScopesNestAndUnwind) {
  EXPECT_EQ(Autocast::dtype(), DType::f32);
  const Tensor x = ones({2, 2}, on_device());
  {
    const Autocast outer(DType::bf16);
    EXPECT_EQ(Autocast::dtype(), DType::bf16);
    {
      const Autocast inner(DType::f16);
      EXPECT_EQ(matmul(x, x).dtype(), DType::f16);
      const Autocast off(DType::f32);
      EXPECT_EQ(Autocast::dtype(), DType::f32);
      EXPECT_EQ(matmul(x, x).dtype(), DType::f32);
      EXPECT_EQ(x.to(DType::f16).exp().dtype(), DType::f16);
    }
    EXPECT_EQ(Autocast::dtype(), DType::bf16);
    EXPECT_THROW(
        {
          const Autocast inner(DType::f16);
          throw std::runtime_error("out of it");
        },
        std::runtime_error);
    EXPECT_EQ(Autocast::dtype(), DType::bf16);
    DType elsewhere = DType::bf16;
    std::thread([&] { elsewhere = Autocast::dtype(); }).join();
    EXPECT_EQ(elsewhere, DType::f32);
  }
  EXPECT_EQ(Autocast::dtype(), DType::f32);
}

TEST(AutocastErrors, Dtypes) {
  errors::expect<DTypeError>([] { const Autocast amp(DType::f64); },
                             "Autocast: expected bf16, f16, or f32 for none, got f64");
  errors::expect<DTypeError>([] { const Autocast amp(DType::i32); },
                             "Autocast: expected bf16, f16, or f32 for none, got i32");
  EXPECT_EQ(Autocast::dtype(), DType::f32);
}

// A gradient rule computes in the dtypes of its forward pass, whatever scope is open when it runs.
TEST(Autocast, BackwardIgnoresTheScope) {
  const auto gradient = [](bool forward_in, bool backward_in) {
    const Tensor a = full({8, 8}, 1.01, on_device(DType::f32, true));
    const Tensor b = full({8, 8}, 0.777, on_device());
    Tensor y;
    {
      const Autocast amp(forward_in ? DType::bf16 : DType::f32);
      y = matmul(a, b).square().sum();
    }
    const Autocast amp(backward_in ? DType::bf16 : DType::f32);
    y.backward();
    EXPECT_EQ(Autocast::dtype(), backward_in ? DType::bf16 : DType::f32);
    EXPECT_EQ(a.grad().dtype(), DType::f32);
    return a.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(false, true), gradient(false, false));
  EXPECT_EQ(gradient(true, true), gradient(true, false));
  EXPECT_NE(gradient(true, false), gradient(false, false));
}

TEST(Autocast, ACheckpointIsComputedAgainInItsScope) {
  const Tensor w = full({8, 8}, 0.131, on_device(DType::f32, true));
  const Tensor x = full({4, 8}, 1.01, on_device(DType::f32, true));
  const auto block = [&](const Tensor& in) { return gelu(linear(gelu(linear(in, w)), w)); };
  const auto gradients = [&](bool checkpointed, bool inside) {
    w.zero_grad();
    x.zero_grad();
    Tensor loss;
    const auto forward = [&] {
      const Tensor in = x * 1.25;
      loss = (checkpointed ? checkpoint(block, in) : block(in)).sum();
    };
    if (inside) {
      const Autocast amp(DType::bf16);
      forward();
      loss.backward();
    } else {
      {
        const Autocast amp(DType::bf16);
        forward();
      }
      loss.backward();
    }
    std::vector<float> all = w.grad().to_vector<float>();
    const std::vector<float> more = x.grad().to_vector<float>();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<float> plain = gradients(false, true);
  EXPECT_EQ(gradients(true, true), plain);
  EXPECT_EQ(gradients(true, false), plain);
}

TEST(Autocast, AFunctionRunsForwardInTheScopeAndBackwardOutside) {
  DType forward = DType::f32, backward = DType::bf16;
  const Function function({.name = "twice",
                           .forward =
                               [&](FunctionContext&, const std::vector<Tensor>& in) {
                                 forward = matmul(in[0], in[0]).dtype();
                                 return std::vector<Tensor>{in[0] * 2};
                               },
                           .backward =
                               [&](FunctionContext&, const std::vector<Tensor>& g) {
                                 backward = matmul(g[0], g[0]).dtype();
                                 return std::vector<Tensor>{g[0] * 2};
                               }});
  const Tensor x = ones({2, 2}, on_device(DType::f32, true));
  const Autocast amp(DType::bf16);
  function(x).sum().backward();
  EXPECT_EQ(forward, DType::bf16);
  EXPECT_EQ(backward, DType::f32);
}

// A step inside one scope is a single plan, which is replayed without further conversions.
TEST(AutocastCounts, ATrainingStep) {
  nn::Sequential model({{"a", nn::Linear(64, 64)}, {"r", nn::GELU()}, {"b", nn::Linear(64, 10)}});
  model.to(test_device());
  optim::AdamW optimizer(model.parameters());
  const Tensor x = randn({64, 64}, on_device()).eval();
  const Tensor labels = zeros({64}, on_device(DType::i64)).eval();
  const auto step = [&] {
    const Autocast amp(DType::bf16);
    optimizer.zero_grad();
    cross_entropy(model(x), labels).backward();
    optimizer.step();
  };
  for (int i = 0; i < 2; ++i) step();
  synchronize(test_device());
  const Counters before = counters();
  for (int i = 0; i < 3; ++i) step();
  synchronize(test_device());
  const Counters after = counters();
  EXPECT_EQ(after.submits - before.submits, 3u);
  EXPECT_EQ(after.plans_built - before.plans_built, 0u);
  EXPECT_EQ(after.compilations - before.compilations, 0u);
  EXPECT_EQ(after.transfers - before.transfers, 0u);
  EXPECT_EQ(after.allocations - before.allocations, 0u);
}

}  // namespace
}  // namespace volta
