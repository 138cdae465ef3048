// Attention as one library call that reads its operands where they are in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype) {
  manual_seed(seed);
  return randn(shape, {.device = test_device()}).to(dtype).eval();
}

bool has_library() {
  const Tensor q = noise({1, 2, 64, 64}, 1, DType::bf16);
  const Explanation plan = explain(scaled_dot_product_attention(q, q, q));
  return plan.steps.front().kind == "attention";
}

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, size;
  bool causal;
};

// The output and the gradients of q, k and v, from operands of one dtype computed in another. The
// operands' heads are stored before or after their lengths.
std::vector<Tensor> attended(const Sizes& s, DType dtype, DType computed, bool heads_first) {
  std::vector<Tensor> leaves;
  const auto shape = [&](std::int64_t heads, std::int64_t length) {
    return heads_first ? Shape{s.batch, heads, length, s.size}
                       : Shape{s.batch, length, heads, s.size};
  };
  const Shape of_queries = shape(s.heads, s.queries), of_keys = shape(s.kv_heads, s.keys);
  for (int i = 0; i < 3; ++i) {
    const Tensor values =
        noise(i == 0 ? of_queries : of_keys, static_cast<std::uint64_t>(i), dtype);
    leaves.push_back(values.clone().to(computed).eval());
    leaves.back().set_requires_grad(true);
  }
  const auto turned = [&](const Tensor& x) { return heads_first ? x : x.permute({0, 2, 1, 3}); };
  const Tensor y = scaled_dot_product_attention(turned(leaves[0]), turned(leaves[1]),
                                                turned(leaves[2]), {.causal = s.causal});
  const Tensor g = noise(y.shape(), 7, dtype).to(computed);
  (y * g).sum().backward();
  std::vector<Tensor> results{y.detach()};
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

TEST(AttentionSteps, TheLibraryGivesWhatTheLoweringGives) {
  if (!has_library()) GTEST_SKIP() << "no library for attention";
  for (const Sizes& s : {Sizes{2, 4, 4, 64, 64, 64, false}, Sizes{2, 4, 4, 100, 100, 64, true},
                         Sizes{1, 8, 2, 77, 130, 128, false}, Sizes{3, 2, 1, 256, 256, 32, true},
                         Sizes{1, 2, 2, 96, 96, 256, true}}) {
    for (const auto& [dtype, heads_first] :
         {std::pair{DType::bf16, false}, std::pair{DType::f16, false},
          std::pair{DType::bf16, true}}) {
      const std::vector<Tensor> library = attended(s, dtype, dtype, heads_first),
                                ours = attended(s, dtype, DType::f32, heads_first);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const double largest = ours[i].abs().max().item<double>(),
                     off = (ours[i] - library[i].to(DType::f32)).abs().max().item<double>();
        EXPECT_LE(off, (dtype == DType::bf16 ? 2e-2 : 3e-3) * largest)
            << "result " << i << " of " << s.queries << " queries";
      }
    }
  }
}

// A result that is held with heads first is written that way, without a copy; gradients too.
TEST(AttentionSteps, HeldResultsAreWrittenAsTheyAreHeld) {
  if (!has_library()) GTEST_SKIP() << "no library for attention";
  std::vector<Tensor> leaves;
  for (std::uint64_t i = 0; i < 3; ++i) {
    leaves.push_back(noise({2, 4, 64, 64}, i, DType::bf16));
    leaves.back().set_requires_grad(true);
  }
  const Tensor g = noise({2, 4, 64, 64}, 3, DType::bf16);
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.causal = true});
  y.backward(g);
  const std::vector<Tensor> results{y.detach(), leaves[0].grad(), leaves[1].grad(),
                                    leaves[2].grad()};
  const Explanation plan = explain(std::span<const Tensor>(results));
  EXPECT_EQ(plan.kernels(), 0) << plan;
  EXPECT_EQ(plan.library_calls(), 2) << plan;
}

// q, k and v are parts of one projection's result: nothing is copied, and the output is written in
// the order in which the next layer reads it.
TEST(AttentionSteps, OperandsAreReadWhereTheyLie) {
  if (!has_library()) GTEST_SKIP() << "no library for attention";
  const Tensor qkv = noise({2, 64, 3 * 4 * 64}, 1, DType::bf16);
  const auto attention = [&] {
    const Tensor parts = qkv.reshape({2, 64, 3, 4, 64}).permute({2, 0, 3, 1, 4});
    return scaled_dot_product_attention(parts[0], parts[1], parts[2], {.causal = true})
        .permute({0, 2, 1, 3})
        .reshape({2, 64, 256});
  };
  const Explanation plan = explain(attention());
  EXPECT_EQ(plan.kernels(), 0);
  EXPECT_EQ(plan.library_calls(), 1);
}

// What a computation adds to the counters.
template <class Compute>
Counters counted(Compute compute) {
  const Counters before = counters();
  compute();
  Counters after = counters();
  after.plans_built -= before.plans_built;
  after.compilations -= before.compilations;
  after.kernels_loaded -= before.kernels_loaded;
  after.library_calls -= before.library_calls;
  after.launches -= before.launches;
  return after;
}

// From the second length on, attention runs in kernels whose sizes are arguments: further lengths
// build no plan, compile nothing and call no library.
TEST(AttentionSteps, FurtherLengthsCompileNothing) {
  if (test_device().type() != DeviceType::cuda) GTEST_SKIP() << "kernels of the CUDA backend";
  for (const bool padded : {false, true}) {
    empty_cache(test_device());
    std::uint64_t number = 0;
    for (const std::int64_t length : {96, 104, 112, 120, 88}) {
      std::vector<Tensor> leaves;
      for (std::uint64_t i = 0; i < 3; ++i) {
        leaves.push_back(noise({2, 4, length, 64}, i, DType::bf16));
        leaves.back().set_requires_grad(true);
      }
      const Tensor g = noise({2, 4, length, 64}, 3, DType::bf16);
      AttentionOptions options{.causal = true};
      if (padded) {
        const Tensor lengths =
            from_vector<std::int64_t>({length, length / 2}, {2}, {.device = test_device()});
        options.mask = nn::padding_mask(lengths, length).reshape({2, 1, 1, length}).eval();
      }
      const Counters work = counted([&] {
        const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
        y.backward(g);
        leaves[2].grad().eval();  // with everything else that is held
      });
      if (++number > 2) {
        EXPECT_EQ(work.plans_built, 0u) << "length " << length;
        EXPECT_EQ(work.compilations + work.kernels_loaded, 0u) << "length " << length;
      }
      // The first length without a mask may be a library's.
      if (number > 1 || padded) {
        EXPECT_EQ(work.library_calls, 0u) << "length " << length;
        EXPECT_EQ(work.launches, 3u) << "one forward, two for the gradients";
      }
    }
  }
}

// A transformer block as well, causal or with padding.
TEST(AttentionSteps, FurtherLengthsOfABlockBuildNoPlans) {
  if (test_device().type() != DeviceType::cuda) GTEST_SKIP() << "kernels of the CUDA backend";
  for (const bool padded : {false, true}) {
    empty_cache(test_device());
    nn::TransformerBlock block(128, 4,
                               {.causal = !padded, .dtype = DType::bf16, .device = test_device()});
    const NoGrad no_grad;
    std::uint64_t number = 0;
    for (const std::int64_t length : {96, 104, 112, 120, 88}) {
      const Tensor x = noise({2, length, 128}, 1, DType::bf16);
      nn::AttendOptions options;
      if (padded) {
        options.key_padding_mask = noise({2, length}, 2, DType::f32).gt(0.5).eval();
      }
      const Counters work = counted([&] { block(x, options).eval(); });
      if (++number > 2) {
        EXPECT_EQ(work.plans_built, 0u) << "length " << length;
        EXPECT_EQ(work.compilations + work.kernels_loaded, 0u) << "length " << length;
      }
      if (number < 5) continue;
      const Explanation plan = explain(block(x, options));
      EXPECT_EQ(std::ranges::count(plan.steps, "attention", &StepInfo::kind), 1) << plan;
    }
  }
}

}  // namespace
}  // namespace volta
