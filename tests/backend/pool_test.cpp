// The memory pool, over a backend that returns handles of an imaginary device.
#include "backend/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "volta/counters.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;

// Returns handles without memory and checks which handles come back.
class PaperBackend : public Backend {
 public:
  explicit PaperBackend(std::uint64_t capacity = 64 * kGiB) : capacity_(capacity) {}
  ~PaperBackend() override { EXPECT_EQ(used_, 0u) << "chunks not given back"; }

  int device_count() const override { return 1; }
  std::string device_name(int) const override { return "paper"; }
  bool device_is_gpu(int) const override { return false; }
  std::uint64_t device_memory(int) const override { return capacity_; }
  bool supports(int, DType) const override { return true; }

  Address allocate(int, std::size_t bytes) override {
    if (bytes > capacity_ - used_) return {};
    used_ += bytes;
    auto handle = std::make_unique<char>();
    void* base = handle.get();
    chunks_[base] = {std::move(handle), bytes};
    return {base, kChunkOffset};
  }
  void release(int, Address memory) override {
    const auto found = chunks_.find(memory.base);
    ASSERT_NE(found, chunks_.end());
    EXPECT_EQ(memory.offset, kChunkOffset);
    used_ -= found->second.bytes;
    chunks_.erase(found);
  }

  void upload(int, Address, const void*, std::size_t) override {}
  void download(int, void*, Address, std::size_t) override {}
  void copy(int, Address, Address, std::size_t) override {}
  std::unique_ptr<Executable> prepare(int, const plan::PlanSteps&) override { return nullptr; }
  void synchronize(int) override {}

  std::uint64_t used() const { return used_; }

 private:
  static constexpr std::uint64_t kChunkOffset = 512;  // a backend's memory need not start at 0
  struct Chunk {
    std::unique_ptr<char> handle;  // only its address is used
    std::uint64_t bytes = 0;
  };

  std::uint64_t capacity_;
  std::uint64_t used_ = 0;
  std::map<void*, Chunk> chunks_;
};

// The held allocations, with a check that no two share a byte.
class Held {
 public:
  void add(Address memory, std::uint64_t bytes) {
    EXPECT_EQ(memory.offset % 256, 0u);
    auto& ranges = ranges_[memory.base];
    const auto next = ranges.lower_bound(memory.offset);
    if (next != ranges.end()) {
      EXPECT_LE(memory.offset + bytes, next->first);
    }
    if (next != ranges.begin()) {
      EXPECT_LE(std::prev(next)->second, memory.offset);
    }
    ranges[memory.offset] = memory.offset + bytes;
  }
  void remove(Address memory) { ranges_[memory.base].erase(memory.offset); }

 private:
  std::map<void*, std::map<std::uint64_t, std::uint64_t>> ranges_;  // begin -> end, by handle
};

TEST(PoolTest, SmallRequestsShareAChunk) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const auto before = counters().allocations;
  const Address a = pool.allocate(1);
  const Address b = pool.allocate(257);
  const Address c = pool.allocate(kMiB - 1024);
  EXPECT_EQ(counters().allocations - before, 1u);
  EXPECT_EQ(pool.stats().in_use, 256 + 512 + kMiB - 1024);
  EXPECT_EQ(pool.stats().reserved, 2 * kMiB);
  EXPECT_EQ(b.offset - a.offset, 256u);
  pool.release(a);
  pool.release(b);
  pool.release(c);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().reserved, 2 * kMiB);
}

TEST(PoolTest, LargeChunksAreSplitAndTheRestIsUsed) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const Address a = pool.allocate(5 * kMiB);
  EXPECT_EQ(pool.stats().reserved, 16 * kMiB);
  const Address b = pool.allocate(11 * kMiB);
  EXPECT_EQ(pool.stats().reserved, 16 * kMiB);
  EXPECT_EQ(a.base, b.base);
  const Address c = pool.allocate(17 * kMiB);
  EXPECT_EQ(pool.stats().reserved, (16 + 18) * kMiB);
  for (const Address memory : {a, b, c}) pool.release(memory);
}

TEST(PoolTest, NeighboursCoalesceInAnyOrder) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {0, 2, 3, 1}};
  for (const auto& order : orders) {
    Address parts[4];
    for (Address& part : parts) part = pool.allocate(4 * kMiB);
    for (const int i : order) pool.release(parts[i]);
    const Address whole = pool.allocate(16 * kMiB);
    EXPECT_EQ(pool.stats().reserved, 16 * kMiB);
    pool.release(whole);
  }
}

TEST(PoolTest, TakesTheSmallestBlockThatFits) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const Address a = pool.allocate(6 * kMiB), wall_a = pool.allocate(kMiB);
  const Address b = pool.allocate(3 * kMiB), wall_b = pool.allocate(6 * kMiB);  // the chunk is full
  pool.release(a);
  pool.release(b);
  const Address c = pool.allocate(2 * kMiB);
  EXPECT_EQ(c, b);
  for (const Address memory : {c, wall_a, wall_b}) pool.release(memory);
}

TEST(PoolTest, PeakFollowsInUse) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const Address a = pool.allocate(4 * kMiB), b = pool.allocate(2 * kMiB);
  pool.release(b);
  EXPECT_EQ(pool.stats().peak, 6 * kMiB);
  pool.reset_peak();
  EXPECT_EQ(pool.stats().peak, 4 * kMiB);
  pool.release(a);
  EXPECT_EQ(pool.stats().peak, 4 * kMiB);
}

TEST(PoolTest, EmptyCacheGivesBackWholeChunksOnly) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const Address kept = pool.allocate(100);
  const Address large = pool.allocate(40 * kMiB);
  pool.release(large);
  pool.empty_cache();
  EXPECT_EQ(pool.stats().reserved, 2 * kMiB);
  EXPECT_EQ(backend.used(), 2 * kMiB);
  pool.release(kept);
  pool.empty_cache();
  EXPECT_EQ(backend.used(), 0u);
}

TEST(PoolTest, PressureReleasesCachedChunksBeforeItFails) {
  PaperBackend backend(64 * kMiB);
  Pool pool(backend, 0, "paper:0");
  const Address cached = pool.allocate(40 * kMiB);
  pool.release(cached);
  const Address a = pool.allocate(60 * kMiB);  // fits only after the 40 MiB are released
  EXPECT_EQ(pool.stats().reserved, 60 * kMiB);
  const Address b = pool.allocate(3 * kMiB);  // no room for a chunk of 16 MiB, but for the request
  EXPECT_EQ(pool.stats().reserved, 63 * kMiB);
  pool.release(a);
  pool.release(b);
}

TEST(PoolTest, OutOfMemorySaysWhoHasWhat) {
  PaperBackend backend(8 * kGiB);
  Pool pool(backend, 0, "cuda:0");
  pool.set_limit(4 * kGiB);
  const Address held = pool.allocate(3 * kGiB + 200 * kMiB);
  try {
    pool.allocate(kGiB + 512 * kMiB);
    FAIL() << "no OutOfMemory";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(),
                 "cuda:0: out of memory: 1.50 GiB requested, 3.20 GiB in use, 3.20 GiB reserved, "
                 "limit 4.00 GiB");
  }
  EXPECT_EQ(pool.stats().in_use, 3 * kGiB + 200 * kMiB);
  pool.set_limit(0);
  const Address more = pool.allocate(kGiB + 512 * kMiB);  // the pool stays usable
  EXPECT_THROW(pool.allocate(8 * kGiB), OutOfMemory);
  EXPECT_THROW(pool.allocate(~std::size_t{0}), OutOfMemory);
  pool.release(held);
  pool.release(more);
}

TEST(PoolTest, ALimitBelowAChunkStillServesSmallRequests) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  pool.set_limit(1024);
  const Address a = pool.allocate(1000);
  EXPECT_THROW(pool.allocate(1), OutOfMemory);
  EXPECT_LE(pool.stats().reserved, 1024u);
  pool.release(a);
  EXPECT_EQ(pool.stats().limit, 1024u);
}

TEST(PoolTest, LoweringTheLimitTrims) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  pool.release(pool.allocate(64 * kMiB));
  EXPECT_EQ(pool.stats().reserved, 64 * kMiB);
  pool.set_limit(32 * kMiB);
  EXPECT_EQ(pool.stats().reserved, 0u);
}

TEST(PoolTest, ReleaseOfUnknownMemoryIsReportedAndHarmless) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const Address a = pool.allocate(100);
  std::string heard;
  set_log_handler([&](LogLevel, std::string_view message) { heard = message; });
  pool.release({a.base, a.offset + 256});
  set_log_handler({});
  EXPECT_EQ(heard, "paper:0: release of memory that its pool does not hold");
  pool.release(a);
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST(PoolTest, WhatIsHeldGoesWithThePool) {
  PaperBackend backend;
  {
    Pool pool(backend, 0, "paper:0");
    pool.allocate(100);
    pool.allocate(40 * kMiB);
  }
  EXPECT_EQ(backend.used(), 0u);
}

TEST(PoolTest, ASteadyStateAsksTheDeviceForNothing) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  const auto step = [&pool] {
    std::vector<Address> held;
    for (std::uint64_t bytes = 64; bytes < 64 * kMiB; bytes *= 3)
      held.push_back(pool.allocate(bytes));
    for (const Address memory : held) pool.release(memory);
  };
  step();
  const auto before = counters().allocations;
  for (int i = 0; i < 100; ++i) step();
  EXPECT_EQ(counters().allocations, before);
}

class PoolFragmentation : public testing::TestWithParam<unsigned> {};

TEST_P(PoolFragmentation, OfRandomUseIsAFifthAtMost) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  Held held;
  std::mt19937_64 random(GetParam());
  std::vector<std::pair<Address, std::uint64_t>> live;
  std::uniform_real_distribution<double> exponent(8, 25);  // 256 B to 32 MiB, log-uniform
  const auto before = counters().allocations;
  std::uint64_t requested = 0, most_requested = 0, most_reserved = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto bytes = static_cast<std::uint64_t>(std::exp2(exponent(random)));
    const Address memory = pool.allocate(bytes);
    held.add(memory, bytes);
    live.emplace_back(memory, bytes);
    requested += bytes;
    most_requested = std::max(most_requested, requested);
    most_reserved = std::max(most_reserved, pool.stats().reserved);
    while (live.size() > 300 || requested > 2 * kGiB) {
      std::swap(live[random() % live.size()], live.back());
      pool.release(live.back().first);
      held.remove(live.back().first);
      requested -= live.back().second;
      live.pop_back();
    }
  }
  const double factor = static_cast<double>(most_reserved) / static_cast<double>(most_requested);
  std::cout << "most reserved / most requested at once: " << factor << ", "
            << counters().allocations - before << " chunks\n";
  EXPECT_LE(factor, 1.2);
  for (const auto& [memory, bytes] : live) pool.release(memory);
  EXPECT_EQ(pool.stats().in_use, 0u);
  pool.empty_cache();
  EXPECT_EQ(pool.stats().reserved, 0u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, PoolFragmentation, testing::Range(1u, 9u));

// A sequence that grows with every step, as in text generation.
TEST(PoolTest, SizesThatGrowDoNotPileUp) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  Address last = pool.allocate(kMiB);
  for (std::uint64_t bytes = 2 * kMiB; bytes < 200 * kMiB; bytes += kMiB) {
    const Address next = pool.allocate(bytes);
    pool.release(last);
    last = next;
    EXPECT_LE(pool.stats().reserved, 3 * bytes + 40 * kMiB);
  }
  pool.release(last);
}

TEST(PoolTest, ThreadsShareIt) {
  PaperBackend backend;
  Pool pool(backend, 0, "paper:0");
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&pool, t] {
      std::mt19937 random(t);
      std::vector<Address> mine;
      for (int i = 0; i < 2000; ++i) {
        mine.push_back(pool.allocate(1 + random() % (4 * kMiB)));
        if (mine.size() > 8) {
          std::swap(mine[random() % mine.size()], mine.back());
          pool.release(mine.back());
          mine.pop_back();
        }
      }
      for (const Address memory : mine) pool.release(memory);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
}

}  // namespace
}  // namespace volta
