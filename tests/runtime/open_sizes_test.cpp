// Every family of operations leaves its sizes open: after a few sizes, further ones build no plans
// except the variants that a guard requires, and results have the same bits as with separate plans.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "support/closed_sizes.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace {

using namespace volta;

// The sizes have one order of magnitude. The first `kKnown` of them show which sizes change.
constexpr std::int64_t kSizes[] = {40, 41, 57, 37, 63, 50, 45, 33, 62, 55, 36, 60, 51};
constexpr std::size_t kKnown = 3;

Tensor numbers(const Shape& shape) {
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = static_cast<float>(i * 37 % 31) / 8 - 1.75f;
  return from_vector(elements, shape, {.device = test_device()});
}
Tensor indices(const Shape& shape, std::int64_t below) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = static_cast<std::int64_t>(i) * 7 % below;
  return from_vector(elements, shape, {.device = test_device()});
}

using Values = std::vector<float>;
using Computation = std::function<Values(std::int64_t)>;

Values values_of(std::initializer_list<Tensor> tensors) {
  Values all;
  for (const Tensor& tensor : tensors) {
    const Values some = tensor.to(DType::f32).to_vector<float>();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// An operation, and its gradient, of an input whose shape follows from a size.
Computation differentiated(std::function<Shape(std::int64_t)> shape,
                           std::function<Tensor(const Tensor&)> operation) {
  return [=](std::int64_t size) {
    Tensor x = numbers(shape(size));
    x.set_requires_grad(true);
    const Tensor y = operation(x);
    (y * y).sum().backward();
    return values_of({y.detach(), x.grad()});
  };
}

// A fresh normalization layer, and its gradient.
template <class Make>
Computation normalized(std::function<Shape(std::int64_t)> shape, Make make) {
  return [=](std::int64_t size) {
    auto norm = make();
    norm.to(test_device());
    Tensor x = numbers(shape(size));
    x.set_requires_grad(true);
    const Tensor y = norm(x);
    (y * x).sum().backward();
    return values_of({y.detach(), x.grad()});
  };
}

struct Case {
  std::string name;
  Computation compute;
  // Plans after the first sizes are variants for divisibility, and for sums that GPUs split evenly.
  std::uint64_t plans = 0, on_gpus = 0;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

Shape rows(std::int64_t n) { return {n, 24}; }
Shape squares(std::int64_t n) { return {3, n, n}; }
Shape sequence(std::int64_t n) { return {2, n, 32}; }
Shape batch(std::int64_t n) { return {n, 4, 16, 16}; }
Shape picture(std::int64_t n) { return {2, 4, n, n}; }

Tensor heads(const Tensor& x) { return x.reshape({2, x.size(1), 4, 8}).transpose(1, 2); }

std::vector<Case> movement_and_indices() {
  const auto of = differentiated;
  return {
      {"concat", of(rows, [](const Tensor& x) { return concat({x, x * 2}, 0); })},
      {"stack", of(rows, [](const Tensor& x) { return stack({x, x * 2}, 0); })},
      {"flip_and_roll", of(rows, [](const Tensor& x) { return x.flip(0) * 2 + roll(x, 1, 0); })},
      {"pad", of(rows, [](const Tensor& x) { return x.pad({1, 0}, {2, 0}); })},
      {"half", of(rows, [](const Tensor& x) { return x.narrow(0, 0, x.size(0) / 2); })},
      {"repeat", of(rows, [](const Tensor& x) { return x.repeat({2, 1}); })},
      {"tril", of(squares, [](const Tensor& x) { return tril(x); })},
      {"gather",
       of(rows, [](const Tensor& x) { return gather(x, 1, indices({x.size(0), 5}, 24)); })},
      {"index_select",
       [](std::int64_t n) {
         return values_of({index_select(numbers({50, 24}), 0, indices({n}, 50))});
       },
       1, 1},
      {"embedding",
       [](std::int64_t n) {
         Tensor table = numbers({50, 24});
         table.set_requires_grad(true);
         embedding(table, indices({2, n}, 50)).sum().backward();
         return values_of({table.grad()});
       }},
      {"scatter_add",
       of(rows,
          [](const Tensor& x) {
            return scatter_add(zeros({30, 24}, {.device = test_device()}), 0,
                               indices(x.shape(), 30), x);
          }),
       1, 2},
      {"one_hot", [](std::int64_t n) { return values_of({one_hot(indices({n}, 10), 10)}); }},
      {"arange",
       [](std::int64_t n) { return values_of({arange(0, n, 1, {.device = test_device()}) * 2}); }},
      {"masked", of(squares,
                    [](const Tensor& x) {
                      const Tensor ahead =
                          triu(ones({x.size(1), x.size(1)}, {.device = test_device()}), 1) > 0;
                      return softmax(masked_fill(x, ahead, -1e9), 2);
                    })},
      {"where", of(rows, [](const Tensor& x) { return where(x > 0.5, x, x * 2); })},
  };
}

std::vector<Case> reductions_and_products() {
  const auto of = differentiated;
  return {
      {"softmax_of_rows", of(rows, [](const Tensor& x) { return softmax(x, 1); })},
      {"softmax_of_open_rows", of(squares, [](const Tensor& x) { return softmax(x, 2); })},
      {"layer_norm", of(rows, [](const Tensor& x) { return layer_norm(x, {24}); })},
      {"mean", of(rows, [](const Tensor& x) { return x - x.mean({0}, true); })},
      {"var", of(rows, [](const Tensor& x) { return var(x, {0}); })},
      {"std", of(rows, [](const Tensor& x) { return x / volta::std(x, {0}, {.keepdim = true}); })},
      {"norm", of(rows, [](const Tensor& x) { return x / norm(x); })},
      {"max", of(rows, [](const Tensor& x) { return max(x, {0}); })},
      {"prod", of(rows, [](const Tensor& x) { return (x / 2).prod(1); })},
      {"cumsum", of(rows, [](const Tensor& x) { return cumsum(x, 0); })},
      {"sort", of(rows, [](const Tensor& x) { return sort(x, 0).values; })},
      {"topk", of(rows, [](const Tensor& x) { return topk(x, 5, 0).values; })},
      {"matmul", of(squares, [](const Tensor& x) { return matmul(x, x.transpose(1, 2)); })},
      {"einsum", of(squares, [](const Tensor& x) { return einsum("bij,bkj->bik", {x, x}); })},
      {"attention",
       of(sequence,
          [](const Tensor& x) {
            const Tensor q = heads(x);
            return scaled_dot_product_attention(q, q, q, {.causal = true});
          }),
       0, 3},
      {"cross_entropy",
       of(rows,
          [](const Tensor& x) { return cross_entropy(x, indices({x.size(0)}, 24)) * x.sum(); })},
      {"binary_cross_entropy",
       of(rows, [](const Tensor& x) { return binary_cross_entropy_with_logits(x, sigmoid(x)); })},
      {"mse", of(rows, [](const Tensor& x) { return mse_loss(x, x * 2); })},
  };
}

std::vector<Case> images() {
  const auto of = differentiated;
  const auto convolved = [](Conv2dOptions options, std::int64_t in) {
    return [=](const Tensor& x) { return conv2d(x, numbers({8, in, 3, 3}), {}, options); };
  };
  const auto pooled = [](std::int64_t kernel, MaxPool2dOptions options) {
    return [=](const Tensor& x) { return max_pool2d(x, kernel, options); };
  };
  return {
      {"conv_batches", of(batch, convolved({.padding = 1}, 4))},
      {"conv_sizes", of(picture, convolved({.padding = 1}, 4)), 0, 1},
      // Without a library the windows of odd and even sizes differ too.
      {"conv_strides", of(picture, convolved({.stride = 2, .padding = 1}, 4)), 3, 5},
      {"conv_groups", of(picture, convolved({.padding = 1, .groups = 2}, 2)), 0, 1},
      {"conv_by_channel", of(picture, convolved({.padding = 1, .groups = 4}, 1)), 0, 1},
      {"conv_transpose",
       of(picture,
          [](const Tensor& x) {
            return conv_transpose2d(x, numbers({4, 8, 3, 3}), {}, {.stride = 2});
          }),
       1, 1},
      {"conv1d",
       of(sequence,
          [](const Tensor& x) {
            return conv1d(x.transpose(1, 2), numbers({8, 32, 3}), {}, {.padding = 1});
          }),
       0, 0},
      {"max_pool_batches", of(batch, pooled(2, {}))},
      {"max_pool_sizes", of(picture, pooled(2, {})), 1, 1},
      {"max_pool_padded", of(picture, pooled(3, {.stride = 2, .padding = 1})), 2, 2},
      {"avg_pool",
       of(picture, [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1}); }),
       2, 2},
      {"adaptive_pool_of_all",
       of(picture, [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); })},
      {"adaptive_pool", of(picture, [](const Tensor& x) { return adaptive_avg_pool2d(x, 3); }), 2,
       2},
      {"nearest", of(picture, [](const Tensor& x) { return interpolate(x, {.scale = 2}); })},
      {"bilinear", of(picture,
                      [](const Tensor& x) {
                        return interpolate(x, {.scale = 2, .mode = InterpolateMode::bilinear});
                      })},
      {"batch_norm", normalized(batch, [] { return nn::BatchNorm2d(4); }), 1, 3},
      {"group_norm", normalized(picture, [] { return nn::GroupNorm(2, 4); }), 0, 2},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all = movement_and_indices();
  for (const auto& more : {reductions_and_products(), images()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

class OpenSizes : public testing::TestWithParam<Case> {};

TEST_P(OpenSizes, BuildNoPlans) {
  const Case& one = GetParam();
  std::vector<Values> own;
  empty_cache(test_device());
  {
    const ClosedSizes closed;
    for (const std::int64_t size : kSizes) own.push_back(one.compute(size));
  }
  empty_cache(test_device());
  std::uint64_t before = 0;
  for (std::size_t n = 0; n < std::size(kSizes); ++n) {
    if (n == kKnown) before = counters().plans_built;
    const Values reused = one.compute(kSizes[n]);
    ASSERT_EQ(reused.size(), own[n].size()) << "size " << kSizes[n];
    ASSERT_EQ(std::memcmp(reused.data(), own[n].data(), reused.size() * sizeof(float)), 0)
        << "size " << kSizes[n];
  }
  EXPECT_LE(counters().plans_built - before, test_device().is_cpu() ? one.plans : one.on_gpus);
}

INSTANTIATE_TEST_SUITE_P(Each, OpenSizes, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
