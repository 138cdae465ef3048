// Which lane waits for what, over a backend that writes down what it is told; and the times that
// memory of the pool carries.
#include "backend/lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/pool.h"
#include "volta/error.h"

namespace volta {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::size_t kLarge = Lanes::kAsideBytes;

const char* name_of(Lane lane) {
  return lane == Lane::Compute ? "compute" : lane == Lane::Upload ? "upload" : "download";
}

// A point passes when a test says so.
struct PaperPoint final : Point {
  explicit PaperPoint(std::string its_name) : name(std::move(its_name)) {}
  bool has_passed() const noexcept override { return passed; }
  void wait() const override {}
  std::string name;
  std::atomic<bool> passed = false;
};

// Its device does nothing; points are named by their lane and counted.
class PaperLanes : public Backend {
 public:
  int device_count() const override { return 1; }
  std::string device_name(int) const override { return "paper"; }
  bool device_is_gpu(int) const override { return true; }
  std::uint64_t device_memory(int) const override { return std::uint64_t{64} << 30; }
  bool supports(int, DType) const override { return true; }
  Address allocate(int, std::size_t) override { return {new char, 0}; }
  void release(int, Address memory) override { delete static_cast<char*>(memory.base); }
  void upload(int, Address, const void*, std::size_t) override { add("upload in compute"); }
  void download(int, void*, Address, std::size_t) override { add("download in compute"); }
  void copy(int, Address, Address, std::size_t) override { add("copy"); }
  std::unique_ptr<Executable> prepare(int, const plan::PlanSteps&) override { return nullptr; }
  void synchronize(int) override { add("synchronize"); }

  bool has_lanes(int) const override { return lanes; }
  std::shared_ptr<const Point> mark(int, Lane lane) override {
    const std::lock_guard guard(mutex);
    auto point = std::make_shared<PaperPoint>(name_of(lane) + std::to_string(points.size()));
    points.push_back(point);
    return point;
  }
  void hold(int, Lane lane, const Point& point) override {
    add(std::string(name_of(lane)) + " waits for " + static_cast<const PaperPoint&>(point).name);
  }
  void upload_aside(int, Address, const void*, std::size_t) override { copy_aside("upload"); }
  void download_aside(int, void*, Address, std::size_t) override { copy_aside("download"); }
  void begin_download(int, void*, Address, std::size_t) override { copy_aside("begin"); }

  // What happened since the last call.
  std::vector<std::string> told() { return std::exchange(log, {}); }

  bool lanes = true;
  bool fails = false;
  std::mutex mutex;
  std::vector<std::shared_ptr<PaperPoint>> points;
  std::vector<std::string> log;

 private:
  void add(std::string what) {
    const std::lock_guard guard(mutex);
    log.push_back(std::move(what));
  }
  void copy_aside(const char* what) {
    add(what);
    if (fails) throw BackendError("paper: torn");
  }
};

using Told = std::vector<std::string>;

class LanesTest : public testing::Test {
 protected:
  std::uint64_t run(std::uint64_t uploads = 0) {
    return lanes.compute(uploads, [] {});
  }
  std::uint64_t upload(LaneTimes times = {}) {
    lanes.upload({}, times, nullptr, kLarge);
    return times.upload;
  }

  PaperLanes backend;
  std::recursive_mutex lock;
  Lanes lanes{backend, 0, lock};
};

TEST_F(LanesTest, FreshMemoryIsUploadedToAtOnce) {
  for (int i = 0; i < 5; ++i) run();
  EXPECT_EQ(upload(), 1u);
  EXPECT_EQ(backend.told(), Told{"upload"});
}

TEST_F(LanesTest, AnUploadWaitsForTheWorkThatUsedTheMemoryAndForNoLaterOne) {
  upload();  // points from here on
  for (int i = 0; i < 5; ++i) run();
  ASSERT_EQ(backend.points.size(), 6u);
  backend.told();
  upload({.compute = 3});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute3", "upload"}));
  upload({.compute = 2});  // the lane waits for later work already
  EXPECT_EQ(backend.told(), Told{"upload"});
  upload({.compute = 5});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute5", "upload"}));
}

TEST_F(LanesTest, WorkWaitsForTheUploadsItWasGivenAndForNoOther) {
  const std::uint64_t first = upload(), second = upload();
  EXPECT_LT(first, second);
  backend.told();
  run();
  EXPECT_EQ(backend.told(), Told{});
  run(first);
  EXPECT_EQ(backend.told(), Told{"compute waits for upload0"});
  run(first);
  EXPECT_EQ(backend.told(), Told{});
  run(second);
  EXPECT_EQ(backend.told(), Told{"compute waits for upload1"});
}

TEST_F(LanesTest, NothingIsMarkedWhereNothingIsCopied) {
  for (int i = 0; i < 200; ++i) run();
  LaneTimes times;
  lanes.upload({}, times, nullptr, kLarge - 1);
  lanes.download(nullptr, {}, times, kLarge - 1);
  EXPECT_EQ(times.compute, 201u);
  EXPECT_EQ(times.upload, 0u);
  EXPECT_TRUE(backend.points.empty());
  EXPECT_EQ(backend.told(), (Told{"upload in compute", "download in compute"}));
}

// Another thread may wait for the device with the lock, for as long as a step takes.
TEST_F(LanesTest, SmallUploadsGoAsideWhereTheLockIsTaken) {
  std::unique_lock taken(lock);
  LaneTimes times{.compute = run()};
  std::jthread([&] { lanes.upload({}, times, nullptr, 4); }).join();
  EXPECT_EQ(times.upload, 1u);
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute0", "upload"}));
  lanes.upload({}, times, nullptr, 4);  // its own thread's
  EXPECT_EQ(backend.told(), (Told{"compute waits for upload1", "upload in compute"}));
  EXPECT_EQ(times.compute, 2u);
}

TEST_F(LanesTest, PointsEndSomeTimeAfterTheLastCopy) {
  upload();
  for (std::uint64_t i = 0; i < 2 * Lanes::kPointsAfterCopy; ++i) run();
  EXPECT_EQ(backend.points.size(), 1 + Lanes::kPointsAfterCopy);
}

TEST_F(LanesTest, WorkWithoutAPointIsWaitedForByOneMarkedThen) {
  for (int i = 0; i < 7; ++i) run();
  upload({.compute = 2});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute0", "upload"}));
  upload({.compute = 7});  // the point was marked after all of these
  EXPECT_EQ(backend.told(), Told{"upload"});
}

TEST_F(LanesTest, WorkThatHasEndedIsNotWaitedFor) {
  upload();
  for (int i = 0; i < 4; ++i) run();
  EXPECT_EQ(lanes.finished(), 0u);
  backend.points[1]->passed = backend.points[2]->passed = true;
  EXPECT_EQ(lanes.finished(), 2u);
  backend.told();
  upload({.compute = 2});
  EXPECT_EQ(backend.told(), Told{"upload"});
  backend.points[0]->passed = true;  // the upload
  run(1);
  EXPECT_EQ(backend.told(), Told{});
  EXPECT_EQ(lanes.computed(2), nullptr);
  EXPECT_EQ(lanes.computed(3), backend.points[3]);
  EXPECT_EQ(lanes.uploaded(1), nullptr);
}

TEST_F(LanesTest, ALaterPointServesForOneThatIsGone) {
  upload();
  for (std::size_t i = 0; i < Lanes::kPoints + 10; ++i) run();
  backend.told();
  upload({.compute = 4});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute11", "upload"}));
}

TEST_F(LanesTest, ADownloadWaitsForWhatWroteTheValue) {
  const std::uint64_t uploaded = upload();
  const std::uint64_t written = run(uploaded);
  run();
  backend.told();
  lanes.download(nullptr, {}, {.compute = written}, kLarge);
  EXPECT_EQ(backend.told(), (Told{"download waits for compute1", "download"}));
  lanes.download(nullptr, {}, {.upload = uploaded}, kLarge);
  EXPECT_EQ(backend.told(), (Told{"download waits for upload0", "download"}));
  const auto arrived = lanes.begin_download(nullptr, {}, {.compute = written}, 4);
  EXPECT_EQ(arrived, backend.points.back());
  EXPECT_EQ(backend.points.back()->name, "download3");
  EXPECT_EQ(backend.told(), Told{"begin"});
}

// The value is on the device when a later copy reads it.
TEST_F(LanesTest, SmallCopiesWaitForUploadsToo) {
  const std::uint64_t uploaded = upload();
  backend.told();
  lanes.download(nullptr, {}, {.upload = uploaded}, 4);
  EXPECT_EQ(backend.told(), (Told{"compute waits for upload0", "download in compute"}));
  LaneTimes from{.upload = upload()}, to;
  backend.told();
  lanes.copy({}, to, {}, from, 4);
  EXPECT_EQ(backend.told(), (Told{"compute waits for upload1", "copy"}));
  EXPECT_EQ(to.compute, 1u);
  EXPECT_EQ(from.compute, 1u);
}

TEST_F(LanesTest, AFailedCopyLeavesNothingUnderWay) {
  backend.fails = true;
  LaneTimes times;
  EXPECT_THROW(lanes.upload({}, times, nullptr, kLarge), BackendError);
  EXPECT_EQ(backend.told(), (Told{"upload", "synchronize"}));
  EXPECT_EQ(times.upload, 0u);
  EXPECT_THROW(lanes.download(nullptr, {}, times, kLarge), BackendError);
  EXPECT_EQ(backend.told(), (Told{"download", "synchronize"}));
  EXPECT_THROW(lanes.begin_download(nullptr, {}, times, kLarge), BackendError);
  EXPECT_EQ(backend.told(), (Told{"begin", "synchronize"}));
}

// Its first launches may have been enqueued.
TEST_F(LanesTest, WorkThatFailsIsCounted) {
  EXPECT_THROW(lanes.compute(0, [] { throw BackendError("paper: torn"); }), BackendError);
  EXPECT_EQ(lanes.latest(), 1u);
}

TEST(Lanes, OfADeviceWithoutThemAreOne) {
  PaperLanes backend;
  backend.lanes = false;
  std::recursive_mutex lock;
  Lanes lanes(backend, 0, lock);
  LaneTimes times;
  lanes.upload({}, times, nullptr, 100 * kMiB);
  lanes.download(nullptr, {}, times, 100 * kMiB);
  EXPECT_EQ(lanes.begin_download(nullptr, {}, times, 100 * kMiB), nullptr);
  EXPECT_EQ(lanes.computed(lanes.latest()), nullptr);
  EXPECT_EQ(backend.told(),
            (Told{"upload in compute", "download in compute", "download in compute"}));
  EXPECT_TRUE(backend.points.empty());
}

// Uploads of several threads beside work, each number given once. (For the thread sanitizer, too.)
TEST_F(LanesTest, ThreadsUploadWhileOthersCompute) {
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::vector<std::uint64_t>> numbers(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kRounds; ++i)
          numbers[static_cast<std::size_t>(t)].push_back(upload({.compute = lanes.latest()}));
      });
    }
    for (int i = 0; i < kRounds; ++i) run(static_cast<std::uint64_t>(i));
  }
  std::set<std::uint64_t> all;
  for (const auto& of_thread : numbers) {
    EXPECT_TRUE(std::is_sorted(of_thread.begin(), of_thread.end()));
    all.insert(of_thread.begin(), of_thread.end());
  }
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kRounds));
  EXPECT_EQ(*all.rbegin(), static_cast<std::uint64_t>(kThreads * kRounds));
}

LaneTimes used_by_next(Pool& pool, std::size_t bytes) {
  LaneTimes used;
  pool.release(pool.allocate(bytes, &used), used);
  return used;
}

TEST(PoolTimes, FreshMemoryWasNeverUsed) {
  PaperLanes backend;
  Pool pool(backend, 0, "paper:0");
  const LaneTimes used = used_by_next(pool, 4 * kMiB);
  EXPECT_EQ(used.compute, 0u);
  EXPECT_EQ(used.upload, 0u);
}

TEST(PoolTimes, PartsOfABlockKeepItsTimesAndTheWholeHasTheLatest) {
  PaperLanes backend;
  Pool pool(backend, 0, "paper:0");
  Address parts[4];
  for (Address& part : parts) part = pool.allocate(4 * kMiB);
  for (std::uint64_t i = 0; i < 4; ++i) pool.release(parts[i], {10 + i, 9 - i});  // joined to one
  LaneTimes used;
  const Address small = pool.allocate(2 * kMiB, &used);
  EXPECT_EQ(used.compute, 13u);
  EXPECT_EQ(used.upload, 9u);
  const LaneTimes rest = used_by_next(pool, 14 * kMiB);
  EXPECT_EQ(rest.compute, 13u);
  EXPECT_EQ(rest.upload, 9u);
  pool.release(small, {20, 1});
  EXPECT_EQ(used_by_next(pool, 16 * kMiB).compute, 20u);
  pool.empty_cache();
  EXPECT_EQ(used_by_next(pool, 16 * kMiB).compute, 0u);
}

TEST(PoolTimes, IdleMemoryIsPreferredAndAFewSpareBlocksAreMade) {
  PaperLanes backend;
  Pool pool(backend, 0, "paper:0");
  constexpr std::size_t kBytes = 32 * kMiB;
  LaneTimes used;
  // A program that drops each batch before it makes the next: the block of the step under way is
  // not the one that is uploaded to.
  std::set<void*> blocks;
  for (std::uint64_t step = 1; step < 50; ++step) {
    const Address batch = pool.allocate_idle(kBytes, step < 2 ? 0 : step - 2, used);
    EXPECT_LE(used.compute, step < 2 ? 0 : step - 2);
    blocks.insert(batch.base);
    pool.release(batch, {step, step});
  }
  EXPECT_EQ(blocks.size(), 2u);
  EXPECT_EQ(pool.stats().reserved, 2 * kBytes);
  // Where nothing ends, four serve in turn: no more are taken, and the one used longest ago comes
  // first.
  for (std::uint64_t step = 50; step < 60; ++step) {
    const Address batch = pool.allocate_idle(kBytes, 0, used);
    EXPECT_EQ(used.compute, step < 52 ? 0 : step - 4);
    pool.release(batch, {step, step});
  }
  EXPECT_EQ(pool.stats().reserved, 4 * kBytes);
}

TEST(PoolTimes, UnderALimitBusyMemoryServes) {
  PaperLanes backend;
  Pool pool(backend, 0, "paper:0");
  pool.set_limit(32 * kMiB);
  LaneTimes used;
  pool.release(pool.allocate(32 * kMiB), {5, 0});
  const Address batch = pool.allocate_idle(32 * kMiB, 3, used);
  EXPECT_EQ(used.compute, 5u);
  EXPECT_THROW(pool.allocate_idle(32 * kMiB, 3, used), OutOfMemory);
  pool.release(batch);
}

}  // namespace
}  // namespace volta
