// Steps whose sizes change: a plan is made for a structure, and other sizes use it. Random programs
// run with the plans of other sizes must give the bits of programs planned for themselves.
//   VOLTA_CHANGING_PROGRAMS=first:count   other random programs than the usual ones
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "support/closed_sizes.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace {

using namespace volta;

// The tensors that a program has computed, by their elements.
using Results = std::vector<std::vector<float>>;

Tensor input(const Shape& shape, int salt) {
  // Small integers divided by 8, so that sums of a few are exact in any order and no value is
  // special.
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =
        static_cast<float>((i * 37 + static_cast<std::size_t>(salt) * 11) % 31) / 8 - 1.75f;
  return from_vector(numbers, shape, {.device = test_device()});
}

// A random program over x [b, t, c] whose shapes follow from the existing tensors.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : draw_(seed) {}

  Results run(std::int64_t b, std::int64_t t) {
    constexpr std::int64_t kWidth = 12;
    Tensor x = input({b, t, kWidth}, 1), weight = input({kWidth, kWidth}, 2) / 8;
    Tensor scale = input({kWidth}, 3);
    for (Tensor* leaf : {&x, &weight, &scale}) leaf->set_requires_grad(true);
    Tensor y = x;
    std::vector<Tensor> kept;
    const int steps = 3 + static_cast<int>(draw_() % 6);
    for (int n = 0; n < steps; ++n) {
      y = next(y, x, weight, scale);
      if (draw_() % 4 == 0) kept.push_back(y.detach());
    }
    const Tensor loss = (y * y).mean() + y.sum() / 16;
    loss.backward();
    Results results;
    for (const Tensor& tensor :
         {y.detach(), loss.detach(), x.grad(), weight.grad(), scale.grad()}) {
      if (tensor.defined()) results.push_back(tensor.to(DType::f32).to_vector<float>());
    }
    for (const Tensor& tensor : kept) results.push_back(tensor.to(DType::f32).to_vector<float>());
    return results;
  }

 private:
  // y stays [b, t', 12], with a t' that follows from t.
  Tensor next(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& scale) {
    const Shape shape = y.shape();
    const std::int64_t b = shape[0], t = shape[1], c = shape[2];
    switch (draw_() % 16) {
      case 0:
        return tanh(y) * scale;
      case 1:
        return matmul(y, weight);
      case 2:
        return softmax(y, 1);
      case 3:
        return softmax(y, 2);
      case 4:
        return y - y.mean(1, true);
      case 5:
        return layer_norm(y, {c}, scale);
      case 6:
        return y.reshape({b * t, c}).matmul(weight).reshape({b, t, c});
      case 7: {  // attention written out
        const Tensor scores = matmul(y, y.transpose(1, 2)) / 4;
        return matmul(softmax(scores, 2), y);
      }
      case 8:
        return cumsum(y, 1) / 8;
      case 9:
        return y.flip(1);
      case 10:
        return concat({y.narrow(1, 0, t - 1), y.narrow(1, t - 1, 1) * 2}, 1);
      case 11: {
        const Tensor ids = floor_div(arange(0, t, 1, {.device = test_device()}), 2.0);
        return index_select(y, 1, ids.to(DType::i64));
      }
      case 12:
        return y.narrow(1, 1, t - 1).pad({0, 1, 0}, {0, 0, 0});
      case 13:
        return maximum(y, y.transpose(0, 1).transpose(0, 1) * 0.5) + scale;
      case 14:
        return where(y > 0, y, y * 0.1) + x.mean() * 0.25;
      default:
        return (y.reshape({b, t * c}) - y.sum() / 64).reshape({b, t, c});
    }
  }

  std::mt19937_64 draw_;
};

bool same_bits(const Results& a, const Results& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t n = 0; n < a.size(); ++n) {
    if (a[n].size() != b[n].size()) return false;
    if (std::memcmp(a[n].data(), b[n].data(), a[n].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

struct Programs {
  std::uint64_t first = 0, count = 0;
};

Programs programs_here() {
  if (const char* text = std::getenv("VOLTA_CHANGING_PROGRAMS")) {
    char* end = nullptr;
    const std::uint64_t first = std::strtoull(text, &end, 10);
    return {first, *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1};
  }
  // On GPUs every new kernel takes its compiler a tenth to a third of a second.
  if (test_device().is_cpu()) return {0, 300};
  return {0, thorough() ? 12u : 3u};
}

TEST(ChangingSizes, RandomProgramsGiveTheBitsOfTheirOwnPlans) {
  const Programs programs = programs_here();
  for (std::uint64_t seed = programs.first; seed < programs.first + programs.count; ++seed) {
    std::mt19937_64 draw(seed + 77);
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
    for (int n = 0; n < 6; ++n) {
      sizes.emplace_back(2 + static_cast<std::int64_t>(draw() % 4),
                         8 + static_cast<std::int64_t>(draw() % 40));
    }
    std::vector<Results> own;
    empty_cache(test_device());
    {
      const ClosedSizes closed;
      for (const auto& [b, t] : sizes) own.push_back(RandomProgram(seed).run(b, t));
    }
    empty_cache(test_device());
    for (std::size_t n = 0; n < sizes.size(); ++n) {
      const auto [b, t] = sizes[n];
      const Results reused = RandomProgram(seed).run(b, t);
      ASSERT_TRUE(same_bits(reused, own[n]))
          << b << " x " << t << "; run again: VOLTA_CHANGING_PROGRAMS=" << seed << ":1";
    }
  }
}

// Trains with the sizes in turn; returns the number of plans built after the first `known` steps.
std::uint64_t plans_after(std::size_t known, const std::vector<std::int64_t>& sizes,
                          const std::function<void(std::int64_t)>& step) {
  std::uint64_t before = 0;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    if (n == known) before = counters().plans_built;
    step(sizes[n]);
  }
  return counters().plans_built - before;
}

TEST(ChangingSizes, BatchesOfAnMlpBuildNoPlan) {
  nn::Sequential model({nn::Linear(20, 32), nn::ReLU(), nn::Linear(32, 10)});
  model.to(test_device());
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  // The first two steps have special state; the next two show which sizes change.
  const auto step = [&](std::int64_t batch) {
    const Tensor x = input({batch, 20}, 5),
                 y = zeros({batch}, {.dtype = DType::i64, .device = test_device()});
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    loss.item();
  };
  EXPECT_EQ(plans_after(4, {33, 33, 34, 47, 50, 35, 60, 61, 40, 55}, step), 0u);
}

TEST(ChangingSizes, LengthsOfATransformerBuildNoPlan) {
  nn::Embedding embedding(30, 16);
  nn::TransformerBlock block(16, 2, {.causal = true});
  nn::Linear head(16, 30);
  for (nn::Module* module : std::initializer_list<nn::Module*>{&embedding, &block, &head})
    module->to(test_device());
  std::vector<Tensor> parameters;
  for (nn::Module* module : std::initializer_list<nn::Module*>{&embedding, &block, &head}) {
    for (const Tensor& parameter : module->parameters()) parameters.push_back(parameter);
  }
  optim::SGD optimizer(parameters, {.lr = 0.01});
  const auto step = [&](std::int64_t length) {
    const Tensor ids = zeros({2, length}, {.dtype = DType::i64, .device = test_device()});
    optimizer.zero_grad();
    const Tensor logits = head(block(embedding(ids)));
    const Tensor loss = cross_entropy(logits.reshape({2 * length, 30}), ids.reshape({2 * length}));
    loss.backward();
    optimizer.step();
    loss.item();
  };
  // On GPUs a sum of many rows is split evenly if possible, which depends on some lengths.
  EXPECT_LE(plans_after(4, {40, 40, 41, 48, 50, 43, 60, 63, 45, 52}, step),
            test_device().is_cpu() ? 0u : 3u);
}

// Each order of magnitude is planned once more: a sequence that grows by one for 500 steps.
TEST(ChangingSizes, AGrowingSequenceIsPlannedAFewTimes) {
  const Tensor weight = input({16, 16}, 1) / 8;
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 2; length < 500; ++length) lengths.push_back(length);
  const std::uint64_t plans = plans_after(0, lengths, [&](std::int64_t length) {
    const NoGrad off;
    const Tensor x = input({length, 16}, 2);
    softmax(matmul(x, weight).matmul(x.transpose(0, 1)), 1).sum().item();
  });
  EXPECT_LE(plans, 40u);
}

}  // namespace
