// Plans with attention as a call whose sizes are open, on a backend that has such calls: the CPU
// with the reference in place of kernels. What the plans ask of a library is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/backend_loader.h"
#include "backend/cuda/attention.h"
#include "plan/calls/attention.h"
#include "support/child.h"
#include "volta/volta.h"

namespace volta {
namespace {

using plan::AttentionStep;

// What the backend was asked for, and what it ran.
struct Asked {
  std::uint64_t library = 0, library_runs = 0, kernel_runs = 0, masked_runs = 0;
};
Asked& asked() {
  static Asked counts;
  return counts;
}

std::byte* place_of(const plan::BufferRef& buffer, std::span<const Address> leaves,
                    std::span<const Address> outputs, Address arena) {
  const Address& from = buffer.kind == plan::BufferRef::Kind::Leaf     ? leaves[buffer.index]
                        : buffer.kind == plan::BufferRef::Kind::Output ? outputs[buffer.index]
                                                                       : arena;
  return static_cast<std::byte*>(from.pointer()) + buffer.offset;
}

class WithAttention final : public Executable {
 public:
  WithAttention(Backend& cpu, const plan::PlanSteps& steps) : steps_(steps) {
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
      plan::PlanSteps one = steps;
      one.steps = {steps.steps[i]};
      one.costs = {steps.costs[i]};
      const bool own = std::holds_alternative<AttentionStep>(steps.steps[i]);
      others_.push_back(own ? nullptr : cpu.prepare(0, one));
    }
  }
  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args) override {
    for (std::size_t i = 0; i < others_.size(); ++i) {
      if (others_[i] != nullptr) {
        others_[i]->run(leaves, outputs, arena, args);
        continue;
      }
      const auto& step = std::get<AttentionStep>(steps_.steps[i]);
      const bool by_kernels = step.by == AttentionStep::By::Kernels;
      ++(by_kernels ? asked().kernel_runs : asked().library_runs);
      asked().masked_runs += step.masked ? 1 : 0;
      std::vector<const std::byte*> reads;
      for (const auto& read : step.reads)
        reads.push_back(place_of(read.buffer, leaves, outputs, arena));
      std::vector<std::byte*> writes;
      for (const plan::BufferRef& buffer : step.writes)
        writes.push_back(place_of(buffer, leaves, outputs, arena));
      // Kernels leave their sums in the scratch memory, which is nobody else's meanwhile.
      if (by_kernels && step.gradient) {
        const std::uint64_t bytes = cuda::attention_support(step, 90).workspace_bytes;
        ASSERT_LE(step.scratch.offset + bytes, steps_.arena_bytes);
        std::memset(place_of(step.scratch, leaves, outputs, arena), 0xFF, bytes);
      }
      plan::attend(step, reads, writes);
    }
  }
  std::optional<kernel::ErrorRecord> take_error() override {
    for (const auto& other : others_) {
      if (other == nullptr) continue;
      if (auto error = other->take_error()) return error;
    }
    return std::nullopt;
  }

 private:
  const plan::PlanSteps steps_;
  std::vector<std::unique_ptr<Executable>> others_;
};

class AttentionBackend final : public Backend {
 public:
  explicit AttentionBackend(Backend& cpu) : cpu_(cpu) {}

  int device_count() const override { return cpu_.device_count(); }
  std::string device_name(int d) const override { return cpu_.device_name(d); }
  bool device_is_gpu(int d) const override { return cpu_.device_is_gpu(d); }
  std::uint64_t device_memory(int d) const override { return cpu_.device_memory(d); }
  bool supports(int d, DType dtype) const override { return cpu_.supports(d, dtype); }
  std::int64_t small_product(int d) const override { return cpu_.small_product(d); }
  Address allocate(int d, std::size_t bytes) override { return cpu_.allocate(d, bytes); }
  void release(int d, Address memory) override { cpu_.release(d, memory); }
  void upload(int d, Address to, const void* from, std::size_t bytes) override {
    cpu_.upload(d, to, from, bytes);
  }
  void download(int d, void* to, Address from, std::size_t bytes) override {
    cpu_.download(d, to, from, bytes);
  }
  void copy(int d, Address to, Address from, std::size_t bytes) override {
    cpu_.copy(d, to, from, bytes);
  }
  void synchronize(int d) override { cpu_.synchronize(d); }
  CallSupport takes(int d, const plan::Step& step) override {
    const auto* attention = std::get_if<AttentionStep>(&step);
    if (attention == nullptr) return cpu_.takes(d, step);
    if (attention->by == AttentionStep::By::Kernels) return cuda::attention_support(*attention, 90);
    ++asked().library;
    EXPECT_FALSE(attention->masked) << "no library is asked about masks";
    return {.taken = true, .workspace_bytes = 64};
  }
  std::unique_ptr<Executable> prepare(int, const plan::PlanSteps& steps) override {
    return std::make_unique<WithAttention>(cpu_, steps);
  }

 private:
  Backend& cpu_;
};

// Runs the body in a process whose CPU has calls for attention.
template <class Body>
void with_attention(Body body) {
  if (testing_child::is_child()) {
    wrap_backends(
        [](DeviceType, Backend* real) -> Backend* { return new AttentionBackend(*real); });
  }
  testing_child::in_child({{"VOLTA_TUNE", "off"}}, body);
}

constexpr std::int64_t kBatch = 2, kWidth = 48, kHeads = 3;

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype) {
  manual_seed(seed);
  return randn(shape).to(dtype).eval();
}

struct Kind {
  bool causal = false;
  enum class Mask : std::uint8_t { None, Padding, Added } mask = Mask::None;
};

// A network's self-attention and its gradient: q, k and v are parts of one projection, the output
// is projected again. Computed in `dtype` from the same values.
std::vector<Tensor> attended(std::int64_t length, const Kind& kind, DType dtype) {
  const DType half = DType::bf16;
  Tensor x = noise({kBatch, length, kWidth}, 1, half).to(dtype).eval();
  Tensor in = (noise({kWidth, 3 * kWidth}, 2, half) * 0.25).to(dtype).eval(),
         out = (noise({kWidth, kWidth}, 3, half) * 0.25).to(dtype).eval();
  for (Tensor* each : {&x, &in, &out}) each->set_requires_grad(true);
  const Tensor parts =
      matmul(x, in).reshape({kBatch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
  AttentionOptions options{.causal = kind.causal};
  if (kind.mask == Kind::Mask::Padding) {
    options.mask = nn::padding_mask(from_vector<std::int64_t>({length, length / 2}), length)
                       .reshape({kBatch, 1, 1, length});
  } else if (kind.mask == Kind::Mask::Added) {
    options.mask = noise({kHeads, length, length}, 5, half).to(dtype);
  }
  const Tensor y = matmul(scaled_dot_product_attention(parts[0], parts[1], parts[2], options)
                              .permute({0, 2, 1, 3})
                              .reshape({kBatch, length, kWidth}),
                          out);
  y.backward(noise({kBatch, length, kWidth}, 4, half).to(dtype));
  std::vector<Tensor> results{y.detach().eval(), x.grad(), in.grad(), out.grad()};
  for (Tensor& result : results) result.eval();
  return results;
}

void expect_near(const std::vector<Tensor>& ours, const std::vector<Tensor>& right,
                 std::int64_t length) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double largest = right[i].abs().max().item<double>(),
                 off = (ours[i].to(DType::f32) - right[i]).abs().max().item<double>();
    EXPECT_LE(off, 2e-2 * largest) << "result " << i << " of length " << length;
  }
}

constexpr std::int64_t kLengths[] = {20, 21, 29, 17, 31, 24, 26};
constexpr std::size_t kKnown = 2;  // how many it takes to see which sizes change

void expect_open(const Kind& kind) {
  std::vector<std::vector<Tensor>> right;
  for (const std::int64_t length : kLengths) right.push_back(attended(length, kind, DType::f32));
  empty_cache(Device::cpu());  // what is known of other kinds
  asked() = {};
  std::uint64_t plans = 0, library = 0;
  for (std::size_t i = 0; i < std::size(kLengths); ++i) {
    if (i == kKnown) plans = counters().plans_built, library = asked().library;
    expect_near(attended(kLengths[i], kind, DType::bf16), right[i], kLengths[i]);
    if (i >= kKnown) {
      EXPECT_EQ(counters().plans_built, plans) << "at length " << kLengths[i];
    }
  }
  EXPECT_EQ(asked().library, library) << "further lengths waited for the library";
  // Only plans whose sizes are all known wait for a library, and only without a mask.
  const bool masked = kind.mask != Kind::Mask::None;
  EXPECT_EQ(asked().library_runs, masked ? 0u : 2u);
  EXPECT_EQ(asked().kernel_runs, 2 * std::size(kLengths) - asked().library_runs);
  EXPECT_EQ(asked().masked_runs, masked ? asked().kernel_runs : 0u);
}

TEST(AttentionPlans, LeaveLengthsOpen) {
  with_attention([] {
    expect_open({});
    expect_open({.causal = true});
  });
}
TEST(AttentionPlans, LeaveLengthsOfMasksOpen) {
  with_attention([] {
    expect_open({.mask = Kind::Mask::Padding});
    expect_open({.causal = true, .mask = Kind::Mask::Padding});
    expect_open({.mask = Kind::Mask::Added});
  });
}

// A mask that needs a gradient has products; so has dropout.
TEST(AttentionPlans, GradientsOfMasksHaveProducts) {
  with_attention([] {
    const auto compute = [](DType dtype, bool learned) {
      std::vector<Tensor> leaves;
      for (std::uint64_t i = 0; i < 4; ++i) {
        leaves.push_back(noise(i == 3 ? Shape{9, 9} : Shape{2, 9, 16}, i, DType::bf16).to(dtype));
        leaves.back().eval();
        leaves.back().set_requires_grad(i < 3 || learned);
      }
      scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.mask = leaves[3]})
          .sum()
          .backward();
      return learned ? leaves[3].grad().to(DType::f32).eval() : leaves[0].grad().eval();
    };
    asked() = {};
    compute(DType::bf16, false);
    EXPECT_EQ(asked().kernel_runs, 2u);
    const Tensor right = compute(DType::f32, true);
    asked() = {};
    const Tensor ours = compute(DType::bf16, true);
    EXPECT_EQ(asked().kernel_runs, 1u) << "the forward pass";
    EXPECT_LE((ours - right).abs().max().item<double>(), 2e-2 * right.abs().max().item<double>());
  });
}

// Held results are written with heads first, in open plans too.
TEST(AttentionPlans, HeldResultsHaveHeadsFirst) {
  with_attention([] {
    const auto compute = [](std::int64_t length, DType dtype) {
      std::vector<Tensor> leaves;
      for (std::uint64_t i = 0; i < 3; ++i) {
        leaves.push_back(noise({2, 2, length, 16}, i, DType::bf16).to(dtype).eval());
        leaves.back().set_requires_grad(true);
      }
      const Tensor y =
          scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.causal = true});
      y.backward(noise({2, 2, length, 16}, 3, DType::bf16).to(dtype));
      std::vector<Tensor> results{y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
      if (dtype == DType::bf16) {
        EXPECT_EQ(explain(std::span<const Tensor>(results)).kernels(), 0) << "length " << length;
      }
      for (Tensor& result : results) result.eval();
      return results;
    };
    for (const std::int64_t length : kLengths)
      expect_near(compute(length, DType::bf16), compute(length, DType::f32), length);
  });
}

}  // namespace
}  // namespace volta
