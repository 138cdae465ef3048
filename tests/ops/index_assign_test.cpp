// Assignment to parts of tensors: which handles see the new value, the right-hand side, gradients,
// and the cost of a loop that writes one row per step.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "ops/conformance/conformance.h"
#include "volta/volta.h"

namespace volta::conformance {
namespace {

using Floats = std::vector<float>;

TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = test_device()}; }
Tensor counting(const Shape& shape) {
  return arange(shape.numel(), {.dtype = DType::f32, .device = test_device()}).reshape(shape);
}
Floats values(const Tensor& t) { return t.to_vector<float>(); }

// ---- Targets of assignments.

static_assert(std::is_assignable_v<Tensor&, Tensor>);
static_assert(std::is_assignable_v<Tensor&, const Tensor&>);
static_assert(std::is_assignable_v<Tensor&, Selection>);
static_assert(!std::is_assignable_v<Tensor, Tensor>, "x.narrow(0, 1, 2) = v would do nothing");
static_assert(!std::is_assignable_v<Tensor, const Tensor&>);
static_assert(std::is_assignable_v<Selection, Tensor>, "x[i] = v");
static_assert(std::is_assignable_v<Selection, double>, "x[i] = 1");
static_assert(std::is_assignable_v<Selection, Selection>, "x[i] = y[j]");
static_assert(std::is_assignable_v<Selection&, Tensor>, "row = y");
static_assert(std::is_assignable_v<Selection&, Selection>);
static_assert(!std::is_assignable_v<Selection&, double>, "row = 1 is no rebinding");
static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_swappable_v<Tensor>);
static_assert(std::is_convertible_v<Selection, Tensor> && std::is_base_of_v<Tensor, Selection>);

template <class T>
concept AddsInPlace = requires(T&& x, const Tensor& v) { std::forward<T>(x) += v; };
static_assert(AddsInPlace<Tensor&> && !AddsInPlace<Tensor> && AddsInPlace<Selection>);
template <class T>
concept Fills = requires(T&& x) { std::forward<T>(x).fill_(1); };
static_assert(Fills<Tensor&> && !Fills<Tensor> && Fills<Selection>);

TEST(IndexAssign, ContainersOfTensorsWorkAsBefore) {
  std::vector<Tensor> list{counting({2}), counting({3})};
  std::swap(list[0], list[1]);
  list.insert(list.begin(), counting({2, 2})[0]);
  list.erase(list.begin() + 1);
  EXPECT_EQ(values(list[0]), (Floats{0, 1}));
  EXPECT_EQ(list.size(), 2u);
  std::pair<Tensor, Tensor> both;
  std::tie(both.first, both.second) = std::pair<Tensor, Tensor>(list[0], list[1]);
  EXPECT_EQ(values(both.second), (Floats{0, 1}));
}

// ---- Handles.

TEST(IndexAssign, EveryHandleSeesTheNewValue) {
  Tensor x = counting({3, 2});
  const Tensor handle = x, copy = x.clone();
  x[1] = 9;
  EXPECT_EQ(values(handle), (Floats{0, 1, 9, 9, 4, 5}));
  handle[0] = tensor({7, 8}, here());  // the handle is const, the variable is not
  EXPECT_EQ(values(x), (Floats{7, 8, 9, 9, 4, 5}));
  EXPECT_EQ(values(copy), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST(IndexAssign, ANameGivenToAPartIsATensorOfItsOwn) {
  Tensor x = counting({3, 2});
  auto row = x[1];
  x[1] = 9;
  EXPECT_EQ(values(row), (Floats{2, 3}));  // the value when it was selected
  row = tensor({5, 6}, here());            // rebinds
  EXPECT_EQ(values(x), (Floats{0, 1, 9, 9, 4, 5}));
  EXPECT_EQ(values(row), (Floats{5, 6}));
  auto other = x[2];
  other += 1;  // changes the name's variable, not x
  EXPECT_EQ(values(other), (Floats{5, 6}));
  other[0] = 0;
  EXPECT_EQ(values(other), (Floats{0, 6}));
  EXPECT_EQ(values(x), (Floats{0, 1, 9, 9, 4, 5}));
  row = x[0];
  EXPECT_EQ(values(row.sum()), (Floats{1}));
}

TEST(IndexAssign, APartOfAPartWritesIntoTheWhole) {
  Tensor x = counting({2, 3, 2});
  x[1][2] = 0;
  x[0].slice(0, 1, 3)[0][1] = -1;
  x.index({Slice{0, 1}, newaxis})[0][0][0] = tensor({50, 60}, here());  // through a new axis
  x[tensor({1}, here(DType::i64))][0][0] = 100;                         // through integers
  EXPECT_EQ(values(x), (Floats{50, 60, 2, -1, 4, 5, 100, 100, 8, 9, 0, 0}));
}

TEST(IndexAssign, TheRightHasTheOldValue) {
  Tensor x = counting({3, 2});
  x[0] = x[1];
  EXPECT_EQ(values(x), (Floats{2, 3, 2, 3, 4, 5}));
  x.slice(0, 0, 2) = x.slice(0, 1, 3);
  EXPECT_EQ(values(x), (Floats{2, 3, 4, 5, 4, 5}));
  x.slice(0, {}, {}, -1) = x * 10;
  EXPECT_EQ(values(x), (Floats{40, 50, 40, 50, 20, 30}));
  x[tensor({2, 0}, here(DType::i64))] = x.slice(0, 0, 2);
  EXPECT_EQ(values(x), (Floats{40, 50, 40, 50, 40, 50}));
}

TEST(IndexAssign, AssignmentsChain) {
  Tensor x = counting({2, 2}), y = counting({2, 2});
  x[0] = y[1] = 7;
  EXPECT_EQ(values(x), (Floats{7, 7, 2, 3}));
  EXPECT_EQ(values(y), (Floats{0, 1, 7, 7}));
}

TEST(IndexAssign, ReadingRecordsWhenTheValueIsAskedFor) {
  const Tensor x = counting({3, 2}).eval();
  const auto recorded = [] { return counters().nodes_recorded; };
  const std::uint64_t before = recorded();
  const auto row = x[1];
  EXPECT_EQ(recorded(), before);
  EXPECT_EQ(row.shape(), Shape{2});
  EXPECT_EQ(recorded() - before, 2u);  // a shrink and a reshape, as for narrow and squeeze
  x[0].shape();
  EXPECT_EQ(recorded() - before, 4u);
}

// ---- Values.

TEST(IndexAssign, ValuesBroadcastAndTakeTheDTypeAndDeviceWrittenTo) {
  Tensor x = zeros({2, 3, 2}, here(DType::i32));
  x.slice(1, 1, 3) = tensor({1.9, -1.9}, here());
  EXPECT_EQ(x.dtype(), DType::i32);
  EXPECT_EQ(x.to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 0, 1, -1, 1, -1, 0, 0, 1, -1, 1, -1}));
  x[0] = tensor({1, 2, 3}, {1, 3, 1}, {.dtype = DType::i64});  // from the CPU, with an extra axis
  EXPECT_EQ(x[0].to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 1, 2, 2, 3, 3}));
  Tensor flags = zeros({4}, here(DType::boolean));
  flags.slice(0, 1, 3) = 5;
  EXPECT_EQ(flags.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 1, 1, 0}));
  Tensor half = zeros({4}, here(DType::f16));
  half[tensor({3, 1}, here(DType::i32))] = tensor({1.5, 65504}, here());
  EXPECT_EQ(half.to_vector<float>(), (Floats{0, 65504, 0, 1.5}));
}

TEST(IndexAssign, EmptySelectionsWriteNothing) {
  Tensor x = counting({2, 3});
  x.slice(1, 2, 1) = 9;
  x.slice(1, 2, 1) += 9;
  x[zeros({0}, here(DType::i64))] = 9;
  x.index({zeros({2, 3}, here(DType::boolean))}) = 9;
  x.index({zeros({2}, here(DType::boolean))}) = zeros({0, 3}, here());
  EXPECT_EQ(values(x), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST(IndexAssign, UpdatesInPlaceLeaveTheRestAsItIs) {
  const double nan = kNan;
  Tensor x = tensor({-0.0, nan, 3, 4}, here());
  x.slice(0, 2, 4) += tensor({1, 2}, here());
  x[3] *= 0.5;
  x[2] /= 2;
  x.slice(0, {}, {}, -2) -= tensor({10, 0}, here());
  const Floats got = values(x);
  EXPECT_TRUE(std::signbit(got[0]) && got[0] == 0);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ((Floats{got[2], got[3]}), (Floats{2, -7}));
}

TEST(IndexAssign, IntegersThatNameAnElementOftenWriteTheLast) {
  Tensor x = zeros({5}, here());
  x[tensor({1, 3, 1, 3, 1}, here(DType::i64))] = tensor({1, 2, 3, 4, 5}, here());
  EXPECT_EQ(values(x), (Floats{0, 5, 0, 4, 0}));
  // The sorted implementation, too.
  const std::int64_t n = 700, k = 2000;
  const Array ids = integers({k}, 0, n - 1, DType::i64);
  const Array rows = numbers({k, 2});
  Array expected = numbers({n, 2});
  Tensor y = upload(expected);
  for (std::int64_t i = 0; i < k; ++i) {
    const auto to = static_cast<std::size_t>(ids.values[static_cast<std::size_t>(i)]);
    for (std::size_t c = 0; c < 2; ++c)
      expected.values[2 * to + c] = rows.values[2 * static_cast<std::size_t>(i) + c];
  }
  y[upload(ids)] = upload(rows);
  expect_close(download(y), expected, {});
}

// ---- Gradients.

TEST(IndexAssign, ARegionGivesItsGradientToWhatWasWritten) {
  const auto check = [](std::vector<Array> inputs, const Function& f) {
    expect_gradients(inputs, f);
  };
  check({numbers({3, 4}), numbers({4})}, [](const auto& in) {
    Tensor x = in[0].square();
    x[1] = in[1].square();
    return x.square();
  });
  if (!thorough()) return;
  check({numbers({3, 4}), numbers({3, 1})}, [](const auto& in) {
    Tensor x = in[0].square();
    x.slice(1, 1, 3) = in[1].square();
    return x.square();
  });
  check({numbers({3, 5}), numbers({3, 3})}, [](const auto& in) {
    Tensor x = in[0].square();
    x.slice(1, {}, {}, -2) = in[1].square();
    x.index({2, 0}) = 1;
    return x.square();
  });
  check({numbers({3, 4}), numbers({2}, 0.5, 2)}, [](const auto& in) {
    Tensor x = in[0].square();
    x.index({ellipsis, Slice{0, 2}}) /= in[1];
    x[2] *= x[0];
    x[0] -= 3;
    return x.square();
  });
}

TEST(IndexAssign, IntegersAndMasksGiveTheirGradients) {
  const Tensor ids = tensor({2, 0, -1, 1}, here(DType::i64)),
               pair = tensor({0, 1}, {2, 1}, here(DType::i64)),
               mask = tensor({1, 0, 1}, here(DType::boolean));
  expect_gradients({numbers({3, 4}), numbers({4, 4})}, [&](const auto& in) {
    Tensor x = in[0].square();
    x[ids] = in[1].square();  // row 2 occurs twice: the last value counts
    return x.square();
  });
  if (!thorough()) return;
  expect_gradients({numbers({2, 3, 3}), numbers({2, 4, 3})}, [&](const auto& in) {
    Tensor x = in[0].square();
    x.index({pair, Slice{}, ids}) = in[1].square();
    return x.square();
  });
  const CheckReport report = check_gradients(
      [&](const std::vector<Tensor>& in) {
        Tensor x = in[0].square();
        x[mask] = in[1].square();  // evaluates the mask
        x.index({mask.logical_not()}) = in[2];
        return x.square();
      },
      {upload(numbers({3, 2}).as(widest())), upload(numbers({2, 2}).as(widest())),
       upload(numbers({1}).as(widest()))});
  EXPECT_TRUE(report.passed) << report.message;
}

TEST(IndexAssign, AnyOrderOfGradients) {
  const Tensor x = upload(numbers({3, 2}).as(widest()), true),
               v = upload(numbers({2}).as(widest()), true);
  const auto second = [&](const Tensor& t, const Tensor& w) {
    Tensor y = t * t * t;
    y[1] = w * w * w;
    const Tensor first = grad((y * y).sum(), w, {.create_graph = true});
    return grad(first.sum(), w);
  };
  // (v^6)'' = 30 v^4
  expect_close(download(second(x, v)),
               mapped(download(v.detach()), [](double a) { return 30 * a * a * a * a; }),
               close_in(widest(), 30));
}

TEST(IndexAssign, LeavesChangeOnlyUnderNoGrad) {
  Tensor x = counting({2, 2}).set_requires_grad();
  EXPECT_THROW(x[0] = 1, ArgumentError);
  EXPECT_THROW(x[0] += 1, ArgumentError);
  {
    const NoGrad scope;
    x[0] = 5;
  }
  EXPECT_TRUE(x.is_leaf() && x.requires_grad());
  EXPECT_EQ(values(x), (Floats{5, 5, 2, 3}));
  const auto row = x[1];
  {
    const NoGrad scope;
    x[1] = 0;  // selected before the write, read after it
    EXPECT_EQ(values(row), (Floats{2, 3}));
  }
  (row * row).sum().backward();
  EXPECT_EQ(values(x.grad()), (Floats{0, 0, 4, 6}));
  Tensor plain;
  {
    const NoGrad scope;
    auto part = x[0];
    plain = part;
  }
  EXPECT_FALSE((plain * 1).requires_grad());
}

TEST(IndexAssign, InACheckpointedStretch) {
  const Tensor x = upload(numbers({3, 2}), true);
  const auto with = [&](const Tensor& part) {
    return [&part](const Tensor& t) {
      Tensor y = t.square();
      y[0] = t[1] * part;
      return y.sin();
    };
  };
  const auto outside = x[2], again = x[2];  // first read inside the scope
  checkpoint(with(outside), x).sum().backward();
  const Array once = download(x.grad());
  x.zero_grad();
  with(again)(x).sum().backward();
  expect_close(download(x.grad()), once, close_in(DType::f32));
}

// ---- Cost.

struct Cost {
  std::uint64_t plans, compilations, launches, allocations;
};
template <class Step>
Cost cost_of(Step step) {
  const Counters before = counters();
  step();
  const Counters after = counters();
  return {after.plans_built - before.plans_built, after.compilations - before.compilations,
          after.launches - before.launches, after.allocations - before.allocations};
}

void expect_one_plan_for_all_rows(const std::function<void(Tensor&, std::int64_t)>& write) {
  Tensor cache = (counting({64, 32}) * 0.5).eval();
  for (std::int64_t t = 60; t < 62; ++t) {
    write(cache, t);
    cache.eval();
  }
  synchronize(test_device());
  const std::uint64_t in_use = memory_stats(test_device()).in_use;
  for (std::int64_t t = 0; t < 60; ++t) {
    const Cost cost = cost_of([&] {
      write(cache, t);
      cache.eval();
    });
    EXPECT_EQ(cost.plans, 0u) << t;
    EXPECT_EQ(cost.compilations, 0u) << t;
    EXPECT_EQ(cost.launches, 1u) << t;
    EXPECT_EQ(cost.allocations, 0u) << t;
  }
  EXPECT_EQ(memory_stats(test_device()).in_use, in_use);
}

TEST(IndexAssign, ALoopThatWritesARowEachStepIsOnePlanInPlace) {
  const Tensor row = counting({32}).eval();
  expect_one_plan_for_all_rows([&](Tensor& cache, std::int64_t t) { cache[t] = row; });
  expect_one_plan_for_all_rows([&](Tensor& cache, std::int64_t t) { cache[t] = row * 3; });
  expect_one_plan_for_all_rows([&](Tensor& cache, std::int64_t t) { cache[t] += row; });
  expect_one_plan_for_all_rows(
      [&](Tensor& cache, std::int64_t t) { cache.index({ellipsis, t % 32}) = 2.5; });
  expect_one_plan_for_all_rows([&](Tensor& cache, std::int64_t t) { cache[t][t % 32] *= 1.5; });
}

TEST(IndexAssign, ARangeIsOneKernelInPlace) {
  Tensor x = (counting({64, 32}) * 0.5).eval();
  const Tensor v = counting({16, 32}).eval();
  const auto write = [&] {
    x.slice(0, 8, 24) = v * 2;
    x.eval();
  };
  write();
  synchronize(test_device());
  const std::uint64_t in_use = memory_stats(test_device()).in_use;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cost_of(write).launches, 1u);
  EXPECT_EQ(memory_stats(test_device()).in_use, in_use);
}

TEST(IndexAssign, WhereAMaskIsTrueANumberNeedsNoLook) {
  Tensor x = counting({8, 8}).eval();
  const std::uint64_t submits = counters().submits;
  x.index({x > 3}) = 0;
  EXPECT_EQ(counters().submits, submits);
  EXPECT_EQ(x.sum().item(), 6);
}

TEST(IndexAssign, AnIndexOutOfRangeIsToldOfAtTheNextLook) {
  Tensor x = counting({3, 2});
  x[tensor({0, 3}, here(DType::i64))] = 1;
  EXPECT_THROW(x.to_vector<float>(), IndexError);
  EXPECT_EQ(values(counting({2})), (Floats{0, 1}));  // the device still works
}

}  // namespace
}  // namespace volta::conformance
