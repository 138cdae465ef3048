// Backward passes that are nested, in several threads, or over long chains, and changes to tensors
// and hooks by users in between.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool requires_grad = false) {
  return {.device = test_device(), .requires_grad = requires_grad};
}
using Floats = std::vector<float>;

// Here the gradient has a history of its own, which leads to the leaf that it belongs to.
TEST(Passes, FromAGradientToItsOwnLeaf) {
  const Tensor x = tensor({1, 2, 3}, here(true));
  (x * x).sum().backward();
  Tensor g = x.grad();
  g += (x * x * x).sum();
  EXPECT_TRUE(g.requires_grad());
  g.backward(tensor({1, 0, 1}, here()));  // adds 2 * 3 x x
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{38 + 6, 40 + 24, 42 + 54}));
  EXPECT_FALSE(x.grad().requires_grad());
}

TEST(Passes, AHookMayDropTheRoot) {
  const Tensor x = tensor({1, 2}, here(true));
  Tensor y = x * 3;
  Tensor loss = (y * y).sum();
  y.register_hook([&](const Tensor&) {
    loss = Tensor();
    y = Tensor();
  });
  loss.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{18, 36}));
}

TEST(Passes, AHookMayRunAnother) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor y = x * x;
  const Tensor z = (y * y * y).sum();  // the sum of x^6
  Tensor inner;
  bool inside = false;  // the inner pass runs the hook, too
  y.register_hook([&](const Tensor&) {
    if (!std::exchange(inside, true)) inner = grad(z, x, {.retain_graph = true});
  });
  z.backward({.retain_graph = true});
  EXPECT_EQ(inner.to_vector<float>(), (Floats{6, 192}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{6, 192}));
}

TEST(Passes, ThreadsShareAGraph) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor common = (x * 1).eval();
  std::atomic<int> wrong{0};
  const auto work = [&](float factor) {
    for (int i = 0; i < 100; ++i) {
      const Tensor g = grad((common * factor).sum(), x, {.retain_graph = true});
      if (g.to_vector<float>() != Floats{factor, factor}) ++wrong;
    }
  };
  std::thread other(work, 3.0f);
  work(2.0f);
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Passes, ThreadsAddToOneGradient) {
  const Tensor x = tensor({0}, here(true));
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) (x * 1).sum().backward();
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(x.grad().item(), 400);
}

TEST(Passes, AKeptGradientGoesWithItsVariable) {
  const Tensor x = tensor({1, 2}, here(true));
  Tensor loss;
  {
    Tensor y = x * 2;
    y.retain_grad();
    loss = (y * y).sum();
    assign(y, ones({2}, here()));
  }
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) others.push_back(ones({2}, here()) * 2);
  loss.backward();
  for (const Tensor& other : others) EXPECT_FALSE(other.grad().defined());
}

TEST(Passes, AHookMayRemoveItself) {
  const Tensor x = tensor({1, 2}, here(true));
  HookHandle handle;
  std::string seen;
  handle = x.register_hook(
      [&seen, &handle, name = std::string("a name too long to be inline")](const Tensor&) {
        handle.remove();
        seen += name;
      });
  (x * 2).sum().backward();
  (x * 2).sum().backward();
  EXPECT_EQ(seen, "a name too long to be inline");
}

TEST(Passes, LeafHooksRunInTheOrderOfThePass) {
  std::vector<Tensor> leaves;
  std::string order;
  Tensor sum = zeros({1}, here());
  for (int i = 0; i < 8; ++i) {
    leaves.push_back(tensor({1}, here(true)));
    leaves.back().register_hook([&order, i](const Tensor&) { order += std::to_string(i); });
    sum = sum + leaves.back();
  }
  sum.backward();
  EXPECT_EQ(order, "76543210");
}

// Records also hold each other through values that functions save and hooks capture.
TEST(Passes, LongChainsOfAllKindsAreFreed) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "history is the same everywhere";
  const Function twice({.name = "twice",
                        .forward =
                            [](FunctionContext& context, const std::vector<Tensor>& in) {
                              context.save({in[0]});
                              return std::vector<Tensor>{in[0] * 2};
                            },
                        .backward =
                            [](FunctionContext& context, const std::vector<Tensor>& g) {
                              return std::vector<Tensor>{g[0] * 2 + context.saved()[0] * 0};
                            }});
  Tensor x = tensor({1}, here(true));
  for (int i = 0; i < 60000; ++i) {
    x = twice(std::vector<Tensor>{x})[0];
    if (i % 1000 == 0) x.eval();
  }
  x = Tensor();
  x = tensor({1}, here(true));
  for (int i = 0; i < 60000; ++i) {
    const Tensor y = x * 1;
    y.register_hook([x](const Tensor&) {});
    x = y;
    if (i % 1000 == 0) x.eval();
  }
}

TEST(Passes, NumbersAloneHaveNoDevice) {
  errors::expect<ArgumentError>([] { add(1, 2); }, "add: no operand is a tensor");
  errors::expect<ArgumentError>([] { gt(1, 2); }, "gt: no operand is a tensor");
  errors::expect<ArgumentError>([] { maximum(1, 2); }, "maximum: no operand is a tensor");
  errors::expect<ArgumentError>([] { volta::pow(2, 3); }, "pow: no operand is a tensor");
  errors::expect<ArgumentError>([] { logical_and(true, false); },
                                "logical_and: no operand is a tensor");
}

TEST(Passes, DeepFormulasAreRefused) {
  const std::string deep(100000, '-');
  try {
    const ScalarFunction taken({.name = "deep", .parameters = "x", .formula = deep + "x"});
    ADD_FAILURE() << "taken: " << taken(ones({1})).item();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("nested too deeply"), std::string::npos);
  }
}

}  // namespace
}  // namespace volta
