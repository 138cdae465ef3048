// The attention kernels of the CUDA backend, run on the CPU by an emulator and compared with the
// reference. The launches are those of the backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backend/cuda/attention.h"
#include "backend/cuda/attention_emulator.h"
#include "plan/calls/attention.h"

// After the emulator, which has their primitives.
#include "backend/cuda/attention_tiles.cuh"
// After the tiles.
#include "backend/cuda/attention_kernel.cuh"

namespace volta::cuda {
namespace {

using Kernel = AttentionVariant::Kernel;
using plan::AttentionStep;

constexpr int kMuchMemory = 90, kLittleMemory = 86;  // compute capabilities

// ---- Running launches in the emulator.

// What the text asks of a variant. Only the tiles are constants; a device's compiler knows all.
AttentionVariant running;

template <int size, int warps, int tiles, int block, int step, int parts>
struct Emulated {
  static constexpr int kSize = size, kWarps = warps, kTiles = tiles, kBlock = block, kStep = step,
                       kParts = parts;
  static bool causal() { return running.causal; }
  static bool bf16() { return running.dtype == DType::bf16; }
  static volta_attention::Mask mask() {
    using volta_attention::Mask;
    if (!running.masked) return Mask::None;
    switch (running.mask) {
      case DType::boolean:
        return Mask::Boolean;
      case DType::f16:
        return Mask::F16;
      case DType::bf16:
        return Mask::Bf16;
      case DType::f64:
        return Mask::F64;
      default:
        return Mask::F32;
    }
  }
};

using Addresses = std::vector<std::byte*>;

struct Body {
  const Addresses& at;
  volta_attention::Numbers numbers;

  const std::uint16_t* halves(std::size_t i) const {
    return reinterpret_cast<const std::uint16_t*>(at[i]);
  }
  std::uint16_t* result(std::size_t i) const { return reinterpret_cast<std::uint16_t*>(at[i]); }
  float* floats(std::size_t i) const { return reinterpret_cast<float*>(at[i]); }
  const void* mask(std::size_t i) const { return running.masked ? at[i] : nullptr; }

  template <class V>
  void run() const {
    if constexpr (V::kStep == V::kBlock) {
      if (running.kernel == Kernel::Forward) {
        return volta_attention::forward<V>(halves(0), halves(1), halves(2), mask(5), result(3),
                                           floats(4), numbers);
      }
    }
    if (running.kernel == Kernel::QueriesGradient) {
      return volta_attention::queries_gradient<V>(halves(0), halves(1), halves(2), halves(3),
                                                  halves(4), floats(5), mask(8), result(6),
                                                  floats(7), numbers);
    }
    volta_attention::keys_gradient<V>(halves(0), halves(1), halves(2), halves(3), floats(4),
                                      floats(5), mask(8), result(6), result(7), numbers);
  }
};

bool operator==(const AttentionTile& a, const AttentionTile& b) {
  return a.warps == b.warps && a.tiles == b.tiles && a.block == b.block && a.step == b.step &&
         a.parts == b.parts;
}

template <class V>
bool runs_as(const Body& body) {
  const AttentionTile tile{V::kWarps, V::kTiles, V::kBlock, V::kStep, V::kParts};
  if (running.size != V::kSize || !(running.tile == tile)) return false;
  body.run<V>();
  return true;
}

// The tiles that the backend chooses.
void run_body(const Body& body) {
  const bool ran = runs_as<Emulated<32, 4, 2, 64, 64, 1>>(body) ||
                   runs_as<Emulated<32, 4, 2, 64, 32, 1>>(body) ||
                   runs_as<Emulated<32, 4, 1, 64, 32, 1>>(body) ||
                   runs_as<Emulated<64, 4, 2, 64, 64, 1>>(body) ||
                   runs_as<Emulated<64, 4, 2, 64, 32, 1>>(body) ||
                   runs_as<Emulated<64, 4, 1, 64, 32, 1>>(body) ||
                   runs_as<Emulated<96, 4, 2, 64, 64, 1>>(body) ||
                   runs_as<Emulated<96, 4, 2, 32, 32, 1>>(body) ||
                   runs_as<Emulated<96, 4, 1, 32, 32, 1>>(body) ||
                   runs_as<Emulated<96, 4, 1, 64, 64, 1>>(body) ||
                   runs_as<Emulated<128, 4, 2, 64, 64, 1>>(body) ||
                   runs_as<Emulated<128, 4, 2, 32, 32, 1>>(body) ||
                   runs_as<Emulated<128, 4, 1, 32, 32, 1>>(body) ||
                   runs_as<Emulated<128, 4, 1, 64, 64, 1>>(body) ||
                   runs_as<Emulated<192, 4, 1, 32, 32, 1>>(body) ||
                   runs_as<Emulated<192, 4, 1, 32, 32, 2>>(body) ||
                   runs_as<Emulated<192, 2, 1, 16, 16, 1>>(body) ||
                   runs_as<Emulated<192, 2, 1, 16, 16, 2>>(body) ||
                   runs_as<Emulated<256, 4, 1, 32, 32, 1>>(body) ||
                   runs_as<Emulated<256, 4, 1, 32, 32, 2>>(body) ||
                   runs_as<Emulated<256, 2, 1, 16, 16, 1>>(body) ||
                   runs_as<Emulated<256, 2, 1, 16, 16, 2>>(body);
  if (!ran) throw std::logic_error("the emulator has no such tile");
}

void emulate(const AttentionLaunch& launch, const Addresses& memory) {
  running = launch.variant;
  Addresses at;
  for (const plan::BufferRef& buffer : launch.buffers) at.push_back(memory[buffer.index]);
  Body body{at, {}};
  ASSERT_EQ(launch.ints.size() * sizeof(std::int64_t), sizeof body.numbers);
  std::memcpy(&body.numbers, launch.ints.data(), sizeof body.numbers);
  for (std::int64_t block = 0; block < launch.blocks; ++block) {
    testing::EmulatedBlock::now().run(launch.variant.tile.warps * 32, static_cast<unsigned>(block),
                                      launch.variant.shared_bytes(), [&] { run_body(body); });
  }
}

// ---- Cases.

struct Case {
  std::int64_t batch, heads, kv_heads, queries, keys, size;
  bool causal = false;
  DType dtype = DType::bf16;
  // The mask's sizes, which are 1 where it is broadcast; none if empty.
  std::vector<std::int64_t> mask = {};
  DType mask_dtype = DType::boolean;
  // Operands: 0: heads first; 1: heads second to last; 2: rows at odd distances and odd starts.
  int layout = 0;
  unsigned heads_first = 0;
  int device = kMuchMemory;
  bool hides_rows = false;  // some queries see no key
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << name_of(c.dtype) << " [" << c.batch << ", " << c.heads << " of " << c.kv_heads << ", "
      << c.queries << " of " << c.keys << ", " << c.size << "]" << (c.causal ? " causal" : "");
  if (!c.mask.empty()) {
    out << " mask " << name_of(c.mask_dtype);
    for (const std::int64_t n : c.mask) out << " " << n;
  }
  return out << " layout " << c.layout << " for " << c.device;
}

// Reads and writes a number of a floating dtype, or a boolean.
float number_at(const std::byte* at, DType dtype) {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return read(0.0f);
    case DType::f64:
      return static_cast<float>(read(0.0));
    case DType::boolean:
      return read(std::uint8_t{0});
    default:
      return testing::float_of_half(read(std::uint16_t{0}), dtype == DType::bf16);
  }
}
void put_number(std::byte* at, DType dtype, float number) {
  const auto write = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (dtype) {
    case DType::f32:
      return write(number);
    case DType::f64:
      return write(static_cast<double>(number));
    case DType::boolean:
      return write(static_cast<std::uint8_t>(number != 0));
    default:
      return write(testing::half_of(number, dtype == DType::bf16));
  }
}

// Memory with guards around it: numbers that nothing may read, and that must stay as they are.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(kGuard + bytes + kGuard, std::byte{0xFF}) {}
  std::byte* begin() { return bytes_.data() + start(); }
  std::size_t size() const { return bytes_.size() - 2 * kGuard; }
  bool is_guarded() const {
    const auto untouched = [](std::byte b) { return b == std::byte{0xFF}; };
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(start());
    return std::all_of(bytes_.begin(), first, untouched) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(size()), bytes_.end(), untouched);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t start() const {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return kGuard / 2 + (16 - (address + kGuard / 2) % 16) % 16;
  }
  std::vector<std::byte> bytes_;
};

// The buffers of a step, which are numbered.
class Buffers {
 public:
  explicit Buffers(const Case& c)
      : case_(c), random_(static_cast<unsigned>(c.size * 1000 + c.keys * 10 + c.queries)) {}

  plan::BufferRef add(std::size_t bytes) {
    memory_.emplace_back(bytes);
    return {plan::BufferRef::Kind::Leaf, static_cast<std::uint32_t>(memory_.size() - 1)};
  }
  // An operand [batch, heads, length, size] of random numbers; elements between are NaN.
  AttentionStep::Operand operand(std::int64_t heads, std::int64_t length, float spread) {
    AttentionStep::Operand operand;
    const std::int64_t size = case_.size, apart = case_.layout == 2 ? size + 3 : size;
    operand.offset = case_.layout == 2 ? 5 : 0;
    operand.strides =
        case_.layout == 1
            ? std::array{heads * length * size, size, heads * size, std::int64_t{1}}
            : std::array{heads * length * apart, length * apart, apart, std::int64_t{1}};
    operand.buffer =
        add(static_cast<std::size_t>(2 * (operand.offset + case_.batch * heads * length * apart)));
    auto* const to = reinterpret_cast<std::uint16_t*>(memory_.back().begin());
    for (std::int64_t b = 0; b < case_.batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < length; ++i) {
          for (std::int64_t j = 0; j < size; ++j) {
            to[operand.offset + b * operand.strides[0] + h * operand.strides[1] +
               i * operand.strides[2] + j] =
                testing::half_of(spread * normal_(random_), case_.dtype == DType::bf16);
          }
        }
      }
    }
    return operand;
  }
  AttentionStep::Operand mask() {
    const auto& sizes = case_.mask;
    AttentionStep::Operand operand;
    std::int64_t count = 1;
    for (std::size_t axis = 4; axis-- > 0;) {
      operand.strides[axis] = sizes[axis] == 1 ? 0 : count;
      count *= sizes[axis];
    }
    const std::size_t bytes = size_of(case_.mask_dtype);
    operand.buffer = add(static_cast<std::size_t>(count) * bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool hidden =
          normal_(random_) > 0.8f || (case_.hides_rows && i / sizes[3] % sizes[2] % 3 == 1);
      float term = hidden ? -std::numeric_limits<float>::infinity() : normal_(random_);
      if (case_.mask_dtype == DType::boolean) term = hidden ? 0 : 1;
      put_number(memory_.back().begin() + static_cast<std::size_t>(i) * bytes, case_.mask_dtype,
                 term);
    }
    return operand;
  }

  Addresses addresses() {
    Addresses all;
    for (Memory& memory : memory_) all.push_back(memory.begin());
    return all;
  }
  bool are_guarded() const {
    return std::all_of(memory_.begin(), memory_.end(),
                       [](const Memory& memory) { return memory.is_guarded(); });
  }
  std::vector<float> numbers(const plan::BufferRef& buffer, DType dtype) {
    Memory& memory = memory_[buffer.index];
    std::vector<float> all(memory.size() / size_of(dtype));
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = number_at(memory.begin() + i * size_of(dtype), dtype);
    return all;
  }

 private:
  Case case_;
  std::vector<Memory> memory_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

void expect_near(const std::vector<float>& ours, const std::vector<float>& right, double relative,
                 const char* what) {
  ASSERT_EQ(ours.size(), right.size());
  float largest = 0.05f;  // the gradients of one key are 0 but for rounding
  for (const float value : right) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (std::isinf(right[i])) {
      ASSERT_EQ(ours[i], right[i]) << what << ", element " << i;
    } else {
      ASSERT_NEAR(ours[i], right[i], relative * largest) << what << ", element " << i;
    }
  }
}

// Runs the step in the emulator and by the reference, and compares all results.
void expect_step(const AttentionStep& step, Buffers& buffers, int device,
                 const std::vector<DType>& dtypes, double relative) {
  const Addresses addresses = buffers.addresses();
  for (const AttentionLaunch& launch : attention_launches(step, device)) emulate(launch, addresses);
  std::vector<std::vector<float>> ours;
  for (std::size_t i = 0; i < step.writes.size(); ++i)
    ours.push_back(buffers.numbers(step.writes[i], dtypes[i]));
  std::vector<const std::byte*> reads;
  for (const auto& read : step.reads) reads.push_back(addresses[read.buffer.index]);
  std::vector<std::byte*> writes;
  for (const plan::BufferRef& write : step.writes) writes.push_back(addresses[write.index]);
  plan::attend(step, reads, writes);
  for (std::size_t i = 0; i < step.writes.size(); ++i) {
    const bool logarithms = dtypes[i] == DType::f32;
    expect_near(ours[i], buffers.numbers(step.writes[i], dtypes[i]), logarithms ? 1e-5 : relative,
                logarithms      ? "logarithms"
                : step.gradient ? (i == 0   ? "dq"
                                   : i == 1 ? "dk"
                                            : "dv")
                                : "output");
  }
}

void expect_attention(const Case& c) {
  Buffers buffers(c);
  AttentionStep step;
  step.by = AttentionStep::By::Kernels;
  step.dtype = c.dtype;
  step.causal = c.causal;
  step.scale = 1.3 / std::sqrt(static_cast<double>(c.size));
  step.batch = c.batch, step.heads = c.heads, step.kv_heads = c.kv_heads;
  step.queries = c.queries, step.keys = c.keys, step.size = c.size;
  step.heads_first = c.heads_first;
  step.masked = !c.mask.empty();
  step.mask = c.mask_dtype;
  ASSERT_TRUE(attention_support(step, c.device).taken);
  step.reads = {buffers.operand(c.heads, c.queries, 1.5f), buffers.operand(c.kv_heads, c.keys, 1),
                buffers.operand(c.kv_heads, c.keys, 1)};
  const AttentionStep::Operand mask = step.masked ? buffers.mask() : AttentionStep::Operand{};
  if (step.masked) step.reads.push_back(mask);
  const auto of_queries = static_cast<std::size_t>(c.batch * c.heads * c.queries),
             of_keys = static_cast<std::size_t>(c.batch * c.kv_heads * c.keys),
             row = 2 * static_cast<std::size_t>(c.size);
  step.writes = {buffers.add(of_queries * row), buffers.add(of_queries * sizeof(float))};
  const double relative = c.dtype == DType::bf16 ? 1.2e-2 : 2e-3;
  expect_step(step, buffers, c.device, {c.dtype, DType::f32}, relative);

  // The gradient reads the reference's results, which were written last.
  AttentionStep gradient = step;
  gradient.gradient = true;
  gradient.heads_first = c.heads_first >> 1;
  if (step.masked) gradient.reads.pop_back();
  const bool heads_first = (step.heads_first & 1) != 0;
  gradient.reads.push_back(
      {step.writes[0],
       {c.heads * c.queries * c.size, heads_first ? c.queries * c.size : c.size,
        heads_first ? c.size : c.heads * c.size, 1},
       0});
  gradient.reads.push_back(buffers.operand(c.heads, c.queries, 1));
  gradient.reads.push_back({step.writes[1], {c.heads * c.queries, c.queries, 1, 0}, 0});
  if (step.masked) gradient.reads.push_back(mask);
  gradient.writes = {buffers.add(of_queries * row), buffers.add(of_keys * row),
                     buffers.add(of_keys * row)};
  gradient.scratch = buffers.add(of_queries * sizeof(float));
  expect_step(gradient, buffers, c.device, {c.dtype, c.dtype, c.dtype}, relative);
  EXPECT_TRUE(buffers.are_guarded()) << "something outside of the results was written";
}

void expect_all(const std::vector<Case>& cases) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not know fibers";
#endif
  for (const Case& c : cases) {
    SCOPED_TRACE(c);
    expect_attention(c);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(AttentionKernels, OfAllHeadSizes) {
  std::vector<Case> cases;
  int number = 0;
  for (const std::int64_t size : {1, 5, 8, 32, 40, 64, 72, 96, 100, 128, 136, 192, 200, 256}) {
    for (const int device : {kMuchMemory, kLittleMemory}) {
      ++number;
      cases.push_back({.batch = 1,
                       .heads = 2,
                       .kv_heads = number % 3 == 0 ? 1 : 2,
                       .queries = 37,
                       .keys = 37 + number % 2 * 13,
                       .size = size,
                       .causal = number % 2 == 0,
                       .dtype = number % 4 < 2 ? DType::bf16 : DType::f16,
                       .layout = number % 3,
                       .heads_first = static_cast<unsigned>(number % 16),
                       .device = device});
    }
  }
  expect_all(cases);
}

TEST(AttentionKernels, OfAllLengths) {
  std::vector<Case> cases;
  int number = 0;
  for (const auto& [queries, keys] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1},
                                                          {1, 15},
                                                          {15, 1},
                                                          {16, 16},
                                                          {17, 17},
                                                          {64, 64},
                                                          {65, 65},
                                                          {129, 129},
                                                          {1, 129},
                                                          {129, 16},
                                                          {63, 150},
                                                          {200, 70}}) {
    for (const bool causal : {false, true}) {
      ++number;
      cases.push_back({.batch = 2,
                       .heads = 2,
                       .kv_heads = 1,
                       .queries = queries,
                       .keys = keys,
                       .size = number % 3 == 0 ? 24 : 64,
                       .causal = causal,
                       .dtype = number % 3 == 1 ? DType::f16 : DType::bf16,
                       .layout = number % 2,
                       .heads_first = static_cast<unsigned>(number % 16)});
    }
  }
  expect_all(cases);
}

TEST(AttentionKernels, OfAllMasks) {
  std::vector<Case> cases;
  int number = 0;
  for (const DType mask : {DType::boolean, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{2, 4, 35, 67},
                                                   {2, 1, 1, 67},
                                                   {1, 1, 35, 67},
                                                   {1, 4, 35, 1},
                                                   {1, 1, 1, 1},
                                                   {1, 4, 1, 67}}) {
      ++number;
      cases.push_back({.batch = 2,
                       .heads = 4,
                       .kv_heads = number % 2 == 0 ? 2 : 4,
                       .queries = 35,
                       .keys = 67,
                       .size = number % 5 == 0 ? 20 : 32,
                       .causal = number % 3 == 0,
                       .dtype = number % 2 == 0 ? DType::f16 : DType::bf16,
                       .mask = sizes,
                       .mask_dtype = mask,
                       .layout = number % 3,
                       .heads_first = static_cast<unsigned>(number % 16),
                       .hides_rows = sizes[2] > 1});
    }
  }
  expect_all(cases);
}

TEST(AttentionKernels, OfMasksOverLargerTiles) {
  std::vector<Case> cases;
  for (const std::int64_t size : {64, 80, 128, 160, 256}) {
    for (const int device : {kMuchMemory, kLittleMemory}) {
      cases.push_back({.batch = 1,
                       .heads = 2,
                       .kv_heads = 1,
                       .queries = 70,
                       .keys = 50,
                       .size = size,
                       .causal = size == 128,
                       .mask = {1, 2, 70, 50},
                       .mask_dtype = size == 80 ? DType::bf16 : DType::boolean,
                       .device = device,
                       .hides_rows = true});
    }
  }
  expect_all(cases);
}

TEST(AttentionKernels, OfRandomCases) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(count));
  };
  std::vector<Case> cases;
  for (int number = 0; number < 60; ++number) {
    Case c{.batch = 1 + below(3),
           .heads = 1,
           .kv_heads = 1 + below(2),
           .queries = 1 + below(number % 4 == 0 ? 150 : 40),
           .keys = 1 + below(number % 4 == 1 ? 150 : 40),
           .size = 1 + below(number % 5 == 0 ? 256 : 64),
           .causal = below(2) == 0,
           .dtype = below(2) == 0 ? DType::f16 : DType::bf16,
           .layout = static_cast<int>(below(3)),
           .heads_first = static_cast<unsigned>(below(16)),
           .device = below(2) == 0 ? kMuchMemory : kLittleMemory};
    c.heads = c.kv_heads * (1 + below(3));
    if (below(2) == 0) {
      for (const std::int64_t n : {c.batch, c.heads, c.queries, c.keys})
        c.mask.push_back(below(2) == 0 ? 1 : n);
      c.mask_dtype = below(2) == 0 ? DType::boolean : c.dtype;
      c.hides_rows = below(2) == 0;
    }
    cases.push_back(std::move(c));
  }
  expect_all(cases);
}

}  // namespace
}  // namespace volta::cuda
