// Which stream waits for what, over a backend that logs the requests that it gets; and the times
// that memory of the pool carries.
#include "backend/streams.h"

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
constexpr std::size_t kLarge = Streams::kCopyStreamBytes;

std::string name_of(Stream stream) {
  if (stream == Stream::Upload) return "upload";
  if (stream == Stream::Download) return "download";
  if (stream == Stream::Read) return "read";
  return std::string("compute") +
         (stream == Stream::Compute ? "" : "-" + std::to_string(number_of(stream)) + ":");
}

// An event passes when a test sets it.
struct PaperEvent final : StreamEvent {
  explicit PaperEvent(std::string its_name) : name(std::move(its_name)) {}
  bool has_passed() const noexcept override { return passed; }
  void wait() const override { ++waits; }
  std::string name;
  mutable int waits = 0;
  std::atomic<bool> passed = false;
};

// The device does nothing; events are named by their stream and numbered.
class PaperStreams : public Backend {
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

  bool has_streams(int) const override { return streams; }
  std::shared_ptr<const StreamEvent> record_event(int, Stream stream) override {
    const std::lock_guard guard(mutex);
    auto event = std::make_shared<PaperEvent>(name_of(stream) + std::to_string(events.size()));
    events.push_back(event);
    return event;
  }
  void wait_for_event(int, Stream stream, const StreamEvent& event) override {
    add(name_of(stream) + " waits for " + static_cast<const PaperEvent&>(event).name);
  }
  void upload_in_copy_stream(int, Address, const void*, std::size_t) override {
    log_copy("upload");
  }
  void download_in_copy_stream(int, void*, Address, std::size_t) override { log_copy("read"); }
  bool take_sent(int, void*, Address, std::size_t) override { return sent; }
  void begin_download(int, void*, Address, std::size_t) override { log_copy("begin"); }

  // The requests since the last call.
  std::vector<std::string> told() { return std::exchange(log, {}); }

  bool streams = true;
  bool sent = false;
  bool fails = false;
  std::mutex mutex;
  std::vector<std::shared_ptr<PaperEvent>> events;
  std::vector<std::string> log;

 private:
  void add(std::string what) {
    const std::lock_guard guard(mutex);
    log.push_back(std::move(what));
  }
  void log_copy(const char* what) {
    add(what);
    if (fails) throw BackendError("paper: torn");
  }
};

using Told = std::vector<std::string>;

class StreamsTest : public testing::Test {
 protected:
  // Runs work that reads memory to which the upload was made; returns its number.
  std::uint64_t run(std::uint64_t uploads = 0) {
    MemoryTimes memory;
    memory.note_upload(uploads);
    return run_in(0, {&memory}, {});
  }
  std::uint64_t run_in(std::size_t stream, std::vector<MemoryTimes*> reads,
                       std::vector<MemoryTimes*> writes) {
    Streams::Run work(streams, stream);
    for (MemoryTimes* memory : reads) work.reads(*memory);
    for (MemoryTimes* memory : writes) work.writes(*memory);
    streams.compute(work, [] {});
    return work.number();
  }
  // Uploads to memory with these times.
  std::uint64_t upload(const StreamTimes& times = {}) {
    MemoryTimes memory;
    memory.set(times);
    streams.upload({}, memory, nullptr, kLarge);
    return memory.upload();
  }

  PaperStreams backend;
  std::recursive_mutex lock;
  Streams streams{backend, 0, lock};
};

TEST_F(StreamsTest, FreshMemoryIsUploadedToAtOnce) {
  for (int i = 0; i < 5; ++i) run();
  EXPECT_EQ(upload(), 1u);
  EXPECT_EQ(backend.told(), Told{"upload"});
}

TEST_F(StreamsTest, AnUploadWaitsForTheWorkThatUsedTheMemoryAndForNoLaterOne) {
  upload();  // events are recorded from here on
  for (int i = 0; i < 5; ++i) run();
  ASSERT_EQ(backend.events.size(), 6u);
  backend.told();
  upload({.compute = {3}});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute3", "upload"}));
  upload({.compute = {2}});  // the stream already waits for later work
  EXPECT_EQ(backend.told(), Told{"upload"});
  upload({.compute = {5}});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute5", "upload"}));
}

TEST_F(StreamsTest, WorkWaitsForTheUploadsItWasGivenAndForNoOther) {
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

TEST_F(StreamsTest, NothingIsMarkedWhereNothingIsCopied) {
  for (int i = 0; i < 200; ++i) run();
  MemoryTimes times;
  streams.upload({}, times, nullptr, kLarge - 1);
  streams.download(nullptr, {}, times, kLarge - 1);
  EXPECT_EQ(times.use(0), 201u);
  EXPECT_EQ(times.upload(), 0u);
  EXPECT_TRUE(backend.events.empty());
  EXPECT_EQ(backend.told(), (Told{"upload in compute", "download in compute"}));
}

// Another thread may hold the lock and wait for the device for as long as a step takes.
TEST_F(StreamsTest, SmallUploadsGoAsideWhereTheLockIsTaken) {
  std::unique_lock taken(lock);
  MemoryTimes times;
  run_in(0, {}, {&times});
  std::jthread([&] { streams.upload({}, times, nullptr, 4); }).join();
  EXPECT_EQ(times.upload(), 1u);
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute0", "upload"}));
  streams.upload({}, times, nullptr, 4);  // an upload of the thread itself
  EXPECT_EQ(backend.told(), (Told{"compute waits for upload1", "upload in compute"}));
  EXPECT_EQ(times.use(0), 2u);
}

TEST_F(StreamsTest, PointsEndSomeTimeAfterTheLastCopy) {
  upload();
  for (std::uint64_t i = 0; i < 2 * Streams::kEventsAfterCopy; ++i) run();
  EXPECT_EQ(backend.events.size(), 1 + Streams::kEventsAfterCopy);
}

TEST_F(StreamsTest, WorkWithoutAPointIsWaitedForByOneMarkedThen) {
  for (int i = 0; i < 7; ++i) run();
  upload({.compute = {2}});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute0", "upload"}));
  upload({.compute = {7}});  // the event was recorded after all of these
  EXPECT_EQ(backend.told(), Told{"upload"});
}

TEST_F(StreamsTest, WorkThatHasEndedIsNotWaitedFor) {
  upload();
  for (int i = 0; i < 4; ++i) run();
  EXPECT_EQ(streams.finished()[0], 0u);
  backend.events[1]->passed = backend.events[2]->passed = true;
  EXPECT_EQ(streams.finished()[0], 2u);
  backend.told();
  upload({.compute = {2}});
  EXPECT_EQ(backend.told(), Told{"upload"});
  backend.events[0]->passed = true;  // the upload
  run(1);
  EXPECT_EQ(backend.told(), Told{});
  EXPECT_EQ(streams.computed({0, 2}), nullptr);
  EXPECT_EQ(streams.computed({0, 3}), backend.events[3]);
  EXPECT_EQ(streams.uploaded(1), nullptr);
}

TEST_F(StreamsTest, ALaterPointServesForOneThatIsGone) {
  upload();
  for (std::size_t i = 0; i < Streams::kEvents + 10; ++i) run();
  backend.told();
  upload({.compute = {4}});
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute11", "upload"}));
}

TEST_F(StreamsTest, ADownloadWaitsForWhatWroteTheValue) {
  MemoryTimes uploaded, written;
  uploaded.note_upload(upload());
  run_in(0, {&uploaded}, {&written});
  run();
  backend.told();
  streams.download(nullptr, {}, written, kLarge);
  EXPECT_EQ(backend.told(), (Told{"read waits for compute1", "read"}));
  streams.download(nullptr, {}, uploaded, kLarge);
  EXPECT_EQ(backend.told(), (Told{"read waits for upload0", "read"}));
  const auto arrived = streams.begin_download(nullptr, {}, written, 4);
  EXPECT_EQ(arrived, backend.events.back());
  EXPECT_EQ(backend.events.back()->name, "download3");
  EXPECT_EQ(backend.told(), (Told{"download waits for compute1", "begin"}));
}

// The value is on the device when a later copy reads it.
TEST_F(StreamsTest, SmallCopiesWaitForUploadsToo) {
  MemoryTimes from, to;
  from.note_upload(upload());
  backend.told();
  streams.download(nullptr, {}, from, 4);
  EXPECT_EQ(backend.told(), (Told{"compute waits for upload0", "download in compute"}));
  from.note_upload(upload());
  backend.told();
  streams.copy({}, to, {}, from, 4);
  EXPECT_EQ(backend.told(), (Told{"compute waits for upload1", "copy"}));
  EXPECT_EQ(to.use(0), 1u);
  EXPECT_EQ(to.written().number, 1u);
  EXPECT_EQ(from.use(0), 1u);
}

TEST_F(StreamsTest, AFailedCopyLeavesNothingUnderWay) {
  backend.fails = true;
  MemoryTimes times;
  EXPECT_THROW(streams.upload({}, times, nullptr, kLarge), BackendError);
  EXPECT_EQ(backend.told(), (Told{"upload", "synchronize"}));
  EXPECT_EQ(times.upload(), 0u);
  EXPECT_THROW(streams.download(nullptr, {}, times, kLarge), BackendError);
  EXPECT_EQ(backend.told(), (Told{"read", "synchronize"}));
  EXPECT_THROW(streams.begin_download(nullptr, {}, times, kLarge), BackendError);
  EXPECT_EQ(backend.told(), (Told{"begin", "synchronize"}));
}

// Work that fails is counted, because its first launches may have been enqueued.
TEST_F(StreamsTest, WorkThatFailsIsCounted) {
  const Streams::Run work(streams, 0);
  EXPECT_THROW(streams.compute(work, [] { throw BackendError("paper: torn"); }), BackendError);
  EXPECT_EQ(streams.latest(), 1u);
}

TEST(DeviceStreams, OfADeviceWithoutThemAreOne) {
  PaperStreams backend;
  backend.streams = false;
  std::recursive_mutex lock;
  Streams streams(backend, 0, lock);
  EXPECT_EQ(streams.compute_stream_of(3), 0u);
  MemoryTimes times;
  streams.upload({}, times, nullptr, 100 * kMiB);
  streams.download(nullptr, {}, times, 100 * kMiB);
  EXPECT_EQ(streams.begin_download(nullptr, {}, times, 100 * kMiB), nullptr);
  EXPECT_EQ(streams.computed({0, streams.latest()}), nullptr);
  EXPECT_EQ(backend.told(),
            (Told{"upload in compute", "download in compute", "download in compute"}));
  EXPECT_TRUE(backend.events.empty());
}

// ---- Several compute streams.

TEST_F(StreamsTest, WorkOfTwoStreamsRunsSideBySide) {
  MemoryTimes a, b;
  for (int i = 0; i < 3; ++i) {
    run_in(1, {&a}, {&a});
    run_in(2, {&b}, {&b});
  }
  EXPECT_EQ(backend.told(), Told{});
  EXPECT_EQ(streams.latest(1), 3u);
  EXPECT_EQ(streams.latest(2), 3u);
  EXPECT_EQ(streams.latest(0), 0u);
}

TEST_F(StreamsTest, ReadingWaitsForWhatWroteTheValueInAnotherStream) {
  MemoryTimes value, other;
  run_in(1, {}, {&value});  // compute-1:0
  run_in(1, {}, {&other});  // compute-1:1
  run_in(2, {&value}, {});  // compute-2:2
  EXPECT_EQ(backend.told(), Told{"compute-2: waits for compute-1:0"});
  run_in(2, {&value}, {});
  EXPECT_EQ(backend.told(), Told{}) << "it has waited for that";
  run_in(0, {&other, &value}, {});
  EXPECT_EQ(backend.told(), Told{"compute waits for compute-1:1"});
  backend.events[1]->passed = true;
  run_in(3, {&other}, {});
  EXPECT_EQ(backend.told(), Told{}) << "it has ended";
}

// Two models read the same batch.
TEST_F(StreamsTest, ReadersDoNotWaitForEachOther) {
  MemoryTimes batch;
  run_in(1, {&batch}, {});
  run_in(2, {&batch}, {});
  run_in(0, {&batch}, {});
  EXPECT_EQ(backend.told(), Told{});
}

TEST_F(StreamsTest, WritingWaitsForThoseWhoReadInOtherStreams) {
  MemoryTimes value, unrelated;
  run_in(1, {}, {&value});      // compute-1:0
  run_in(2, {&value}, {});      // compute-2:1
  run_in(2, {&unrelated}, {});  // compute-2:2
  run_in(3, {&value}, {});      // compute-3:3
  backend.told();
  run_in(1, {&value}, {&value});
  EXPECT_EQ(backend.told(),
            (Told{"compute-1: waits for compute-2:1", "compute-1: waits for compute-3:3"}));
}

// Reads by the first stream while it was the only one were not noted.
TEST_F(StreamsTest, WritingWaitsForWhatTheFirstStreamDidBeforeThereWereOthers) {
  MemoryTimes value, later;
  run_in(0, {}, {&value});
  run_in(0, {&value}, {});
  EXPECT_FALSE(streams.several());
  run_in(1, {}, {&value});
  EXPECT_TRUE(streams.several());
  EXPECT_EQ(backend.told(), Told{"compute-1: waits for compute0"});
  run_in(0, {&later}, {});
  run_in(0, {}, {});
  run_in(1, {}, {&later});
  EXPECT_EQ(backend.told(), Told{"compute-1: waits for compute2"}) << "noted from then on";
}

TEST_F(StreamsTest, MemoryGoesBackWithTheWorkOfEachStreamThatUsedIt) {
  MemoryTimes value;
  run_in(0, {&value}, {});
  run_in(1, {}, {});
  run_in(2, {}, {&value});
  run_in(2, {}, {});
  EXPECT_EQ(streams.last_use(value).compute, (ComputeTimes{1, 0, 1}));
  run_in(1, {&value}, {});
  EXPECT_EQ(streams.last_use(value).compute, (ComputeTimes{1, 2, 1}));
}

TEST_F(StreamsTest, CopiesGoAsideAndWaitForEveryStream) {
  MemoryTimes value, small;
  run_in(1, {}, {&value});
  run_in(2, {&value}, {});
  backend.told();
  streams.upload({}, value, nullptr, kLarge);
  EXPECT_EQ(backend.told(),
            (Told{"upload waits for compute-1:0", "upload waits for compute-2:1", "upload"}));
  streams.upload({}, small, nullptr, 4);
  streams.download(nullptr, {}, small, 4);
  EXPECT_EQ(backend.told(), (Told{"upload", "read waits for upload3", "read"}));
  run_in(2, {&small}, {});
  EXPECT_EQ(backend.told(), Told{"compute-2: waits for upload3"});
}

TEST_F(StreamsTest, TheFirstStreamIsTheOnlyOneAgainAfterAWhile) {
  MemoryTimes value;
  run_in(1, {}, {&value});
  for (std::uint64_t i = 0; i <= 2 * Streams::kWorkAlone; ++i) run();
  EXPECT_TRUE(streams.several()) << "the other's work has not ended";
  backend.events[0]->passed = true;
  for (std::uint64_t i = 0; i < Streams::kWorkAlone; ++i) run();
  EXPECT_FALSE(streams.several());
  const std::uint64_t last = run_in(0, {&value}, {});
  backend.told();
  run_in(2, {}, {&value});
  EXPECT_TRUE(streams.several());
  EXPECT_EQ(streams.last_use(value).compute[0], last);
  ASSERT_EQ(backend.told().size(), 1u) << "it waits for what was read without notice";
}

TEST_F(StreamsTest, LittleOfAStreamIsUnderWay) {
  MemoryTimes value;
  run_in(1, {}, {&value});
  streams.set_room(1, 2);
  streams.make_room(1);
  EXPECT_EQ(backend.events[0]->waits, 0);
  run_in(1, {}, {&value});
  streams.make_room(1);
  EXPECT_EQ(backend.events[0]->waits, 1);
  EXPECT_EQ(backend.events[1]->waits, 0);
  streams.set_room(1, 8);
  run_in(1, {}, {&value});
  streams.make_room(1);
  streams.make_room(2);  // the stream is empty
  EXPECT_EQ(backend.events[1]->waits, 0);
}

TEST_F(StreamsTest, AValueThatWasSentIsTaken) {
  MemoryTimes value;
  run_in(1, {}, {&value});
  backend.sent = true;
  streams.download(nullptr, {}, value, 4);
  EXPECT_EQ(backend.told(), Told{});
  EXPECT_EQ(backend.events[0]->waits, 0);
  backend.sent = false;
  streams.download(nullptr, {}, value, 4);
  EXPECT_EQ(backend.events[0]->waits, 1) << "by the host: others read meanwhile";
}

// A buffer that is reused by one upload after another.
TEST_F(StreamsTest, AnUploadWaitsForCopiesOutOfItsMemory) {
  MemoryTimes scratch, value;
  streams.upload({}, scratch, nullptr, kLarge);
  streams.copy({}, value, {}, scratch, 4);
  backend.told();
  streams.upload({}, scratch, nullptr, kLarge);
  EXPECT_EQ(backend.told(), (Told{"upload waits for compute1", "upload"}));
}

// Several threads upload while others compute; each number is used once. (This is also for the
// thread sanitizer.)
TEST_F(StreamsTest, ThreadsUploadWhileOthersCompute) {
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::vector<std::uint64_t>> numbers(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kRounds; ++i)
          numbers[static_cast<std::size_t>(t)].push_back(upload({.compute = {streams.latest()}}));
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

StreamTimes used_by_next(Pool& pool, std::size_t bytes) {
  StreamTimes used;
  pool.release(pool.allocate(bytes, &used), used);
  return used;
}

TEST(PoolTimes, FreshMemoryWasNeverUsed) {
  PaperStreams backend;
  Pool pool(backend, 0, "paper:0");
  const StreamTimes used = used_by_next(pool, 4 * kMiB);
  EXPECT_EQ(used.compute, ComputeTimes{});
  EXPECT_EQ(used.upload, 0u);
}

TEST(PoolTimes, PartsOfABlockKeepItsTimesAndTheWholeHasTheLatest) {
  PaperStreams backend;
  Pool pool(backend, 0, "paper:0");
  Address parts[4];
  for (Address& part : parts) part = pool.allocate(4 * kMiB);
  for (std::uint64_t i = 0; i < 4; ++i)
    pool.release(parts[i], {{10 + i, 0, 7 - i}, 9 - i, {}});  // merged to one block
  StreamTimes used;
  const Address small = pool.allocate(2 * kMiB, &used);
  EXPECT_EQ(used.compute, (ComputeTimes{13, 0, 7}));
  EXPECT_EQ(used.upload, 9u);
  const StreamTimes rest = used_by_next(pool, 14 * kMiB);
  EXPECT_EQ(rest.compute, (ComputeTimes{13, 0, 7}));
  EXPECT_EQ(rest.upload, 9u);
  pool.release(small, {{20}, 1, {}});
  EXPECT_EQ(used_by_next(pool, 16 * kMiB).compute, (ComputeTimes{20, 0, 7}));
  pool.empty_cache();
  EXPECT_EQ(used_by_next(pool, 16 * kMiB).compute, ComputeTimes{});
}

TEST(PoolTimes, IdleMemoryIsPreferredAndAFewSpareBlocksAreMade) {
  PaperStreams backend;
  Pool pool(backend, 0, "paper:0");
  constexpr std::size_t kBytes = 32 * kMiB;
  StreamTimes used;
  // A program drops each batch before it makes the next: the block that the running step uses is
  // not the one that is uploaded to.
  std::set<void*> blocks;
  for (std::uint64_t step = 1; step < 50; ++step) {
    const Address batch = pool.allocate_idle(kBytes, {step < 2 ? 0 : step - 2}, used);
    EXPECT_LE(used.compute[0], step < 2 ? 0 : step - 2);
    blocks.insert(batch.base);
    pool.release(batch, {{step}, step, {}});
  }
  EXPECT_EQ(blocks.size(), 2u);
  EXPECT_EQ(pool.stats().reserved, 2 * kBytes);
  // If nothing ends, four blocks are used in turn, the least recently used one first.
  for (std::uint64_t step = 50; step < 60; ++step) {
    const Address batch = pool.allocate_idle(kBytes, {}, used);
    EXPECT_EQ(used.compute[0], step < 52 ? 0 : step - 4);
    pool.release(batch, {{step}, step, {}});
  }
  EXPECT_EQ(pool.stats().reserved, 4 * kBytes);
}

TEST(PoolTimes, StreamsHaveMemoryOfTheirOwn) {
  PaperStreams backend;
  Pool pool(backend, 0, "paper:0");
  constexpr std::size_t kBytes = 32 * kMiB;
  const Address a = pool.allocate(kBytes, nullptr, 1), small = pool.allocate(512, nullptr, 1);
  pool.release(a, {{0, 5}, 0, {}});
  pool.release(small, {{0, 5}, 0, {}});
  StreamTimes used;
  const Address b = pool.allocate(kBytes, &used, 2), other = pool.allocate(512, nullptr, 2);
  EXPECT_NE(b, a);
  EXPECT_NE(other, small);
  EXPECT_EQ(used.compute, ComputeTimes{}) << "new";
  EXPECT_EQ(pool.allocate(kBytes, &used, 1), a) << "the same again";
  EXPECT_EQ(used.compute, (ComputeTimes{0, 5}));
  EXPECT_EQ(pool.allocate(512, nullptr, 1), small);
  // A stream that needs more memory than before does not take that of others.
  pool.release(a, {{0, 6}, 0, {}});
  const std::uint64_t reserved = pool.stats().reserved;
  const Address large = pool.allocate(2 * kBytes, nullptr, 2);
  EXPECT_EQ(pool.stats().reserved, reserved + 2 * kBytes);
  EXPECT_EQ(pool.allocate(kBytes, nullptr, 1), a);
  for (const Address& one : {a, b, small, other, large}) pool.release(one);
  EXPECT_EQ(pool.stats().in_use, 0u);
  pool.empty_cache();
  EXPECT_EQ(pool.stats().reserved, 0u);
}

TEST(PoolTimes, UnderALimitOneStreamGetsWhatAnotherGaveBack) {
  PaperStreams backend;
  Pool pool(backend, 0, "paper:0");
  pool.set_limit(32 * kMiB);
  pool.release(pool.allocate(32 * kMiB, nullptr, 1), {{0, 5}, 0, {}});
  StreamTimes used;
  const Address memory = pool.allocate(32 * kMiB, &used, 2);
  EXPECT_EQ(used.compute, ComputeTimes{}) << "given back to the device, which waited";
  EXPECT_THROW(pool.allocate(32 * kMiB, nullptr, 1), OutOfMemory);
  pool.release(memory);
  // If part of a chunk is in use, the free part is taken and waited for.
  const Address part = pool.allocate(8 * kMiB, nullptr, 2),
                rest = pool.allocate(24 * kMiB, nullptr, 2);
  pool.release(rest, {{0, 0, 9}, 0, {}});
  const Address shared = pool.allocate(16 * kMiB, &used, 1);
  EXPECT_EQ(used.compute, (ComputeTimes{0, 0, 9}));
  pool.release(shared);
  pool.release(part);
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST(PoolTimes, UnderALimitBusyMemoryServes) {
  PaperStreams backend;
  Pool pool(backend, 0, "paper:0");
  pool.set_limit(32 * kMiB);
  StreamTimes used;
  pool.release(pool.allocate(32 * kMiB), {{5}, 0, {}});
  const Address batch = pool.allocate_idle(32 * kMiB, {3}, used);
  EXPECT_EQ(used.compute[0], 5u);
  EXPECT_THROW(pool.allocate_idle(32 * kMiB, {3}, used), OutOfMemory);
  pool.release(batch);
}

}  // namespace
}  // namespace volta
