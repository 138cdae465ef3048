// The primitives of the attention kernels on the CPU, so that tests run the text that NVRTC
// compiles for devices. Every thread of a block is a fiber. Lanes meet in the operations of their
// warp, all threads at barriers; a copy to shared memory happens when the thread waits for it, so
// that a kernel that does not wait reads what was there before.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace volta::testing {

// One block of threads at a time.
class EmulatedBlock {
 public:
  using Meeting = std::function<void()>;

  static EmulatedBlock& now() {
    static EmulatedBlock block;
    return block;
  }

  void run(int threads, unsigned number, std::size_t shared_bytes, std::function<void()> body) {
    number_ = number;
    body_ = std::move(body);
    shared.assign(shared_bytes, std::byte{0xFF});  // NaN in every dtype
    fibers_.resize(static_cast<std::size_t>(threads));
    warps_.assign(static_cast<std::size_t>(threads / kLanes), {});
    at_barrier_ = finished_ = 0;
    for (Fiber& fiber : fibers_) {
      if (fiber.stack == nullptr) fiber.stack = std::make_unique<std::byte[]>(kStackBytes);
      fiber.state = State::Ready;
      fiber.copies.clear();
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &EmulatedBlock::start, 0);
    }
    failure_ = nullptr;
    current_ = 0;
    swapcontext(&outside_, &fibers_[0].context);
    if (failure_ != nullptr) throw std::runtime_error(failure_);
  }

  int thread() const { return static_cast<int>(current_); }
  unsigned number() const { return number_; }

  // The threads go on when all of them are here.
  void barrier() {
    if (++at_barrier_ < static_cast<int>(fibers_.size())) return wait();
    at_barrier_ = 0;
    wake(0, fibers_.size());
  }
  // Gives `mine` of every lane of the warp to the last one that comes, which calls `all`; then all
  // go on. `operation` names what they do together, which must be one thing.
  template <class Mine, class All>
  void meet(const char* operation, Mine& mine, const All& all) {
    Warp& warp = warps_[current_ / kLanes];
    if (warp.arrived == 0) warp.operation = operation;
    if (std::strcmp(warp.operation, operation) != 0) return fail("lanes do different things");
    warp.lanes[current_ % kLanes] = &mine;
    if (++warp.arrived < kLanes) return wait();
    std::array<Mine*, kLanes> lanes;
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = static_cast<Mine*>(warp.lanes[i]);
    all(lanes);
    warp.arrived = 0;
    wake(current_ / kLanes * kLanes, kLanes);
  }

  std::byte* shared_at(std::uint32_t address, std::size_t bytes) {
    if (address + bytes > shared.size() || address % bytes != 0) {
      fail("an address outside of shared memory");
      return shared.data();
    }
    return shared.data() + address;
  }
  void copy_later(std::uint32_t to, const void* from, bool inside) {
    std::byte* const place = shared_at(to, 16);
    if (std::bit_cast<std::uintptr_t>(from) % 16 != 0 && inside) fail("a copy from an odd address");
    fibers_[current_].copies.push_back({place, inside ? from : nullptr});
  }
  void finish_copies() {
    for (const Copy& copy : fibers_[current_].copies) {
      if (copy.from == nullptr) {
        std::memset(copy.to, 0, 16);
      } else {
        std::memcpy(copy.to, copy.from, 16);
      }
    }
    fibers_[current_].copies.clear();
  }

  static constexpr std::size_t kLanes = 32;
  std::vector<std::byte> shared;

 private:
  enum class State : std::uint8_t { Ready, Waiting, Finished };
  struct Copy {
    std::byte* to;
    const void* from;
  };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    State state = State::Ready;
    std::vector<Copy> copies;
  };
  struct Warp {
    const char* operation = "";
    std::array<void*, kLanes> lanes{};
    std::size_t arrived = 0;
  };
  static constexpr std::size_t kStackBytes = std::size_t{128} << 10;

  static void start() {
    EmulatedBlock& block = now();
    block.body_();
    if (!block.fibers_[block.current_].copies.empty()) block.fail("copies without a wait");
    block.fibers_[block.current_].state = State::Finished;
    ++block.finished_;
    block.go_on();
  }
  void wait() {
    fibers_[current_].state = State::Waiting;
    go_on();
  }
  void wake(std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) fibers_[i].state = State::Ready;
  }
  void fail(const char* why) {
    failure_ = why;
    swapcontext(&fibers_[current_].context, &outside_);
  }
  // Continues with the next thread that can, or ends the block.
  void go_on() {
    ucontext_t& from = fibers_[current_].context;
    for (std::size_t i = 1; i <= fibers_.size(); ++i) {
      const std::size_t next = (current_ + i) % fibers_.size();
      if (fibers_[next].state != State::Ready) continue;
      if (next == current_) return;
      current_ = next;
      swapcontext(&from, &fibers_[next].context);
      return;
    }
    if (finished_ < fibers_.size()) failure_ = "threads wait for each other";
    swapcontext(&from, &outside_);
  }

  std::function<void()> body_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  ucontext_t outside_{};
  std::size_t current_ = 0, finished_ = 0;
  int at_barrier_ = 0;
  unsigned number_ = 0;
  const char* failure_ = nullptr;
};

inline float float_of_half(std::uint16_t half, bool bf16) {
  if (bf16) return std::bit_cast<float>(std::uint32_t{half} << 16);
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float size = exponent == 31 ? (fraction != 0 ? std::nanf("") : HUGE_VALF)
                     : exponent == 0
                         ? std::ldexp(static_cast<float>(fraction), -24)
                         : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}
// Rounds to the nearest half, ties to even.
inline std::uint16_t half_of(float value, bool bf16) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bf16) {
    if (std::isnan(value)) return 0x7FFF;
    return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return 0x7FFF;
  if (size >= 65520.0f) return sign | 0x7C00;
  const int exponent = std::max(std::ilogb(std::max(size, 0x1p-14f)), -14);
  // A fraction that rounds up to 2048 carries into the exponent.
  const auto fraction = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + fraction));
}

}  // namespace volta::testing

#define VOLTA_DEVICE inline
#define VOLTA_UNROLL
#define VOLTA_NO_UNROLL

namespace volta_attention {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using i64 = std::int64_t;
using volta::testing::EmulatedBlock;

inline int thread_number() { return EmulatedBlock::now().thread(); }
inline u32 block_number() { return EmulatedBlock::now().number(); }
inline void synchronize() { EmulatedBlock::now().barrier(); }
inline float exchanged(float value, int mask) {
  struct Mine {
    float value, result;
    int mask;
  } mine{value, 0, mask};
  EmulatedBlock::now().meet("exchange", mine, [](const auto& lanes) {
    for (std::size_t i = 0; i < lanes.size(); ++i)
      lanes[i]->result = lanes[i ^ static_cast<std::size_t>(lanes[i]->mask)]->value;
  });
  return mine.result;
}
inline float exp2_of(float x) { return std::exp2(x); }
inline float log2_of(float x) { return std::log2(x); }
inline float larger(float a, float b) { return std::fmax(a, b); }
inline float float_of(u32 bits) { return std::bit_cast<float>(bits); }

inline u32 shared_memory() { return 0; }
inline float load_shared(u32 address) {
  float value = 0;
  std::memcpy(&value, EmulatedBlock::now().shared_at(address, sizeof value), sizeof value);
  return value;
}
inline void store_shared(u32 address, float value) {
  std::memcpy(EmulatedBlock::now().shared_at(address, sizeof value), &value, sizeof value);
}
inline void store_shared(u32 address, const u32 (&words)[4]) {
  std::memcpy(EmulatedBlock::now().shared_at(address, sizeof words), words, sizeof words);
}
inline void copy_16(u32 to, const void* from, bool inside) {
  EmulatedBlock::now().copy_later(to, from, inside);
}
inline void end_copies() {}
inline void wait_for_copies() { EmulatedBlock::now().finish_copies(); }

// Lane 4 g + t receives the elements 2 t and 2 t + 1 of row g of each matrix, or of column g.
inline void load_tiles(u32 (&to)[4], u32 row, bool turned) {
  struct Mine {
    u32* to;
    u32 row;
  } mine{to, row};
  EmulatedBlock::now().meet(turned ? "load turned" : "load", mine, [&](const auto& lanes) {
    for (std::size_t matrix = 0; matrix < 4; ++matrix) {
      u16 elements[8][8];
      for (std::size_t r = 0; r < 8; ++r) {
        const std::byte* const from =
            EmulatedBlock::now().shared_at(lanes[8 * matrix + r]->row, sizeof elements[r]);
        std::memcpy(elements[r], from, sizeof elements[r]);
      }
      for (std::size_t lane = 0; lane < 32; ++lane) {
        const std::size_t g = lane / 4, t = lane % 4;
        const u32 low = turned ? elements[2 * t][g] : elements[g][2 * t];
        const u32 high = turned ? elements[2 * t + 1][g] : elements[g][2 * t + 1];
        lanes[lane]->to[matrix] = low | high << 16;
      }
    }
  });
}
inline void load_matrices(u32 (&to)[4], u32 row) { load_tiles(to, row, false); }
inline void load_turned(u32 (&to)[4], u32 row) { load_tiles(to, row, true); }

inline float widened(u16 half, bool bf16) {
  static const auto tables = [] {
    std::array<std::vector<float>, 2> both;
    for (std::size_t kind = 0; kind < 2; ++kind) {
      for (u32 half_bits = 0; half_bits < 65536; ++half_bits)
        both[kind].push_back(volta::testing::float_of_half(static_cast<u16>(half_bits), kind == 1));
    }
    return both;
  }();
  return tables[bf16 ? 1 : 0][half];
}
inline u32 packed(float low, float high, bool bf16) {
  return volta::testing::half_of(low, bf16) | static_cast<u32>(volta::testing::half_of(high, bf16))
                                                  << 16;
}

// The fragments of a lane 4 g + t: of a[16][16] the rows g and g + 8 in the columns 2 t, 2 t + 1
// and 8 more; of b[16][8] the same elements of column g; of c[16][8] the rows g and g + 8.
template <class V>
inline void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  struct Mine {
    float* c;
    const u32* a;
    u32 b[2];
  } mine{c, a, {b0, b1}};
  EmulatedBlock::now().meet("multiply", mine, [](const auto& lanes) {
    float left[16][16], right[8][16];
    const auto element = [](u32 word, std::size_t i) {
      return widened(static_cast<u16>(word >> 16 * i), V::bf16());
    };
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t g = lane / 4, t = lane % 4;
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t part = 0; part < 4; ++part)
          left[g + part % 2 * 8][2 * t + i + part / 2 * 8] = element(lanes[lane]->a[part], i);
        for (std::size_t part = 0; part < 2; ++part)
          right[g][2 * t + i + part * 8] = element(lanes[lane]->b[part], i);
      }
    }
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t g = lane / 4, t = lane % 4;
      for (std::size_t i = 0; i < 4; ++i) {
        float sum = lanes[lane]->c[i];
        for (std::size_t k = 0; k < 16; ++k)
          sum += left[g + i / 2 * 8][k] * right[2 * t + i % 2][k];
        lanes[lane]->c[i] = sum;
      }
    }
  });
}

}  // namespace volta_attention
