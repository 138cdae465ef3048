// Work that continues in parallel with the program: events, values on their way, and uploads during
// computation.
#include "volta/async.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/registry.h"
#include "runtime/scarcity.h"
#include "support/test_device.h"
#include "volta/detail/upload.h"
#include "volta/profiler.h"
#include "volta/transfers.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here() { return {.device = test_device()}; }

std::vector<float> numbers(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 4096) - 2048;
  return values;
}

// Work that keeps the device busy for a while.
Tensor long_work(int products = 12) {
  const std::int64_t n = test_device().type() == DeviceType::cuda ? 6144 : 512;
  Tensor x = full({n, n}, 1.0 / static_cast<double>(n), here()) + 0;
  for (int i = 0; i < products; ++i) x = matmul(x, x);
  return x;
}

TEST(Async, AnEventOfNothingHasHappened) {
  const Event event;
  EXPECT_TRUE(event.done());
  event.wait();
  EXPECT_TRUE(eval_async({}).done());
}

TEST(Async, EvaluatesWithoutWaiting) {
  const Tensor x = from_vector(numbers(1000, 1), {1000}, here());
  const Tensor y = x * 2 + 1;
  EXPECT_TRUE(y.is_pending());
  const Event event = y.eval_async(), copy = event;
  EXPECT_FALSE(y.is_pending());
  if (test_device().is_cpu()) {
    EXPECT_TRUE(event.done());
  }
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_TRUE(copy.done());
  copy.wait();
  EXPECT_EQ(y[3].item(), x[3].item() * 2 + 1);
}

TEST(Async, AnEventIsDoneWhenTheWorkIs) {
  if (test_device().is_cpu()) GTEST_SKIP() << "the CPU has finished when it returns";
  long_work().eval();  // planned and compiled
  synchronize(test_device());
  const Event event = long_work().eval_async();
  const bool at_once = event.done();
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_FALSE(at_once) << "the device was faster than the program";
}

TEST(Async, SeveralTensorsAndDevicesAtOnce) {
  const std::vector<Tensor> all{ones({100}, here()) + 1, ones({50}, here()) * 7,
                                ones({10}, {.device = Device::cpu()}) * 3, zeros({4}, here())};
  const Event event = eval_async(all);
  for (const Tensor& tensor : all) EXPECT_FALSE(tensor.is_pending());
  event.wait();
  EXPECT_EQ(all[0].sum().item(), 200);
  EXPECT_EQ(all[1].sum().item(), 350);
  EXPECT_EQ(all[2].sum().item(), 30);
}

TEST(Async, EventsSurviveTheirTensors) {
  Event event;
  {
    const Tensor x = long_work(4);
    event = x.eval_async();
  }
  empty_cache(test_device());
  event.wait();
  EXPECT_TRUE(event.done());
}

TEST(Async, ManyThreadsMayWait) {
  const Tensor x = long_work(4);
  const Event event = x.eval_async();
  const AsyncValues<float> values = (x.sum() * 0 + 5).to_vector_async<float>();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([=] {
      for (int round = 0; round < 20; ++round) {
        event.wait();
        EXPECT_TRUE(event.done());
        EXPECT_EQ(values.get(), std::vector<float>{5});
      }
    });
  }
}

TEST(Async, UndefinedTensorsAreRefusedAtOnce) {
  EXPECT_THROW(Tensor().eval_async(), ArgumentError);
  EXPECT_THROW(Tensor().to_vector_async<float>(), ArgumentError);
  EXPECT_THROW((ones({2}, here()) + 0.5).to_vector_async<std::int32_t>(), DTypeError);
}

TEST(Async, AWrongIndexReachesWhoWaits) {
  const Tensor table = tensor({10, 20, 30}, {3, 1}, here());
  const auto rows = [&](std::int64_t first) {
    return embedding(table, from_vector<std::int64_t>({first, 0}, here()));
  };
  const Tensor bad = rows(7), good = rows(2);
  const std::array both{good, bad};
  const Event event = eval_async(both);
  const AsyncValues<float> values = bad.to_vector_async<float>();
  for (int look = 0; look < 2; ++look) {
    EXPECT_THROW(event.wait(), IndexError);
    EXPECT_TRUE(event.done());
    EXPECT_THROW(values.wait(), IndexError);
    EXPECT_THROW(values.get(), IndexError);
    EXPECT_TRUE(values.done());
  }
  EXPECT_THROW(bad.to_vector<float>(), IndexError);
  EXPECT_EQ(rows(1).to_vector_async<float>().get(), (std::vector<float>{20, 10}));
  // The event works after the tensor is destroyed, too.
  const Event later = rows(9).eval_async();
  EXPECT_THROW(later.wait(), IndexError);
}

// A parameter that was updated with a wrong label.
Tensor weight_of_a_bad_batch() {
  Tensor weight = (rand({4, 3}, here()) + 1).eval();
  weight.set_requires_grad();
  optim::SGD optimizer({weight}, {.lr = 0.1});
  for (const std::int64_t label : {3, 1}) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(ones({2, 4}, here()).matmul(weight),
                                      from_vector<std::int64_t>({label, 0}, here()));
    loss.backward();
    optimizer.step();
  }
  return weight;
}

// A parameter reports a wrong index once and continues; an event, or asynchronous values, each
// time.
TEST(Async, AWrongIndexOfAParameterIsToldByEveryWait) {
  const auto told = [](const auto& moment) -> std::string {
    try {
      moment.wait();
      return "nothing";
    } catch (const IndexError& error) {
      return error.what();
    }
  };
  {
    const Tensor weight = weight_of_a_bad_batch();
    const Event event = weight.eval_async(), copy = event;
    const std::string first = told(event);
    EXPECT_NE(first.find("index 3 is out of range"), std::string::npos) << first;
    EXPECT_EQ(weight.to_vector<float>().size(), 12u);
    for (int look = 0; look < 2; ++look) {
      EXPECT_EQ(told(event), first);
      EXPECT_EQ(told(copy), first);
    }
    EXPECT_EQ(told(weight.eval_async()), "nothing");
  }
  {
    const Tensor weight = weight_of_a_bad_batch();
    const AsyncValues<float> values = weight.to_vector_async<float>();
    const AsyncValues<float> copy(values);
    const std::string first = told(values);
    EXPECT_NE(first.find("index 3 is out of range"), std::string::npos) << first;
    EXPECT_EQ(weight.to_vector<float>().size(), 12u);
    for (int look = 0; look < 2; ++look) {
      EXPECT_EQ(told(values), first);
      EXPECT_EQ(told(copy), first);
      EXPECT_THROW(copy.get(), IndexError);
    }
  }
  {
    const Event event = weight_of_a_bad_batch().eval_async();
    std::array<std::string, 4> all;
    {
      std::vector<std::jthread> threads;
      for (std::string& own : all) threads.emplace_back([&own, event, told] { own = told(event); });
    }
    for (const std::string& own : all) EXPECT_NE(own.find("index 3"), std::string::npos) << own;
  }
}

TEST(Async, NoMemoryReachesWhoWaits) {
  const Scarcity scarcity;
  Tensor large = ones({32 << 20}, here()) + arange(32 << 20, here());
  const Event event = large.eval_async();
  EXPECT_TRUE(event.done());
  EXPECT_THROW(event.wait(), OutOfMemory);
  EXPECT_THROW(event.wait(), OutOfMemory);
  const AsyncValues<float> values = large.to_vector_async<float>();
  EXPECT_TRUE(values.done());
  EXPECT_THROW(values.get(), OutOfMemory);
  EXPECT_THROW(large.eval(), OutOfMemory);
  large = Tensor();
  EXPECT_EQ((ones({100}, here()) + 1).to_vector_async<float>().get(), std::vector<float>(100, 2));
}

template <class T>
void expect_same_values(const Tensor& x) {
  EXPECT_EQ(x.to_vector_async<T>().get(), x.to_vector<T>()) << to_string(x.shape());
  const Tensor fresh = x + (x.dtype() == DType::boolean ? Tensor(x) : zeros_like(x));
  EXPECT_EQ(fresh.to_vector_async<T>().get(), fresh.to_vector<T>());
}

TEST(Async, ValuesAreThoseOfToVector) {
  const Tensor x = from_vector(numbers(300, 3), {3, 100}, here());
  expect_same_values<float>(x);
  expect_same_values<double>(x);
  expect_same_values<std::int32_t>(x.to(DType::i32));
  expect_same_values<std::int64_t>(x.to(DType::i32));
  expect_same_values<std::uint8_t>(x.gt(0).to(DType::u8));
  EXPECT_EQ(x.gt(0).to_vector_async<bool>().get(), x.gt(0).to_vector<bool>());
  EXPECT_EQ(zeros({3}, here()).to_vector_async<float>().get(), std::vector<float>(3, 0));
  EXPECT_TRUE(zeros({0}, here()).to_vector_async<float>().get().empty());
  EXPECT_TRUE(AsyncValues<float>().get().empty());
  const Tensor large = from_vector(numbers(3 << 20, 4), {3 << 20}, here());
  EXPECT_EQ((large * 2).to_vector_async<float>().get(), (large * 2).to_vector<float>());
}

// The memory of a value on its way is neither overwritten in place nor reused.
TEST(Async, ValuesAreThoseOfTheCall) {
  constexpr std::size_t kCount = 1 << 20;
  const std::vector<float> start = numbers(kCount, 5);
  Tensor x = from_vector(start, {kCount}, here());
  std::vector<AsyncValues<float>> on_the_way;
  for (int i = 0; i < 20; ++i) {
    on_the_way.push_back(x.to_vector_async<float>());
    x += 1;
    x.eval();
    const Tensor other = full({kCount}, -1, here()) * 3;
    other.eval();
  }
  x = Tensor();
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> got = on_the_way[static_cast<std::size_t>(i)].get();
    ASSERT_EQ(got.size(), kCount);
    for (std::size_t at = 0; at < kCount; at += 997)
      ASSERT_EQ(got[at], start[at] + static_cast<float>(i)) << "step " << i << " at " << at;
  }
}

TEST(Async, ValuesOfUsersMemoryAreThoseOfTheCall) {
  std::vector<float> mine{1, 2, 3};
  const AsyncValues<float> values = from_blob(mine.data(), {3}).to_vector_async<float>();
  mine[1] = 100;
  EXPECT_EQ(values.get(), (std::vector<float>{1, 2, 3}));
}

TEST(Async, ValuesThatNobodyTakesHarmNothing) {
  for (int i = 0; i < 50; ++i) {
    const Tensor x = from_vector(numbers(200'000, 6), {200'000}, here()) + i;
    (void)x.to_vector_async<float>();
  }
  EXPECT_EQ((ones({10}, here()) + 1).sum().item(), 20);
}

TEST(Async, TransfersAreCountedUnderTheCall) {
  if (test_device().is_cpu()) GTEST_SKIP() << "nothing moves";
  const Tensor x = rand({1000}, here()) + 1;
  x.eval();
  reset_transfers();
  x.to_vector_async<float>().wait();
  const TransferReport report = transfer_report();
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].reason, "to_vector_async");
  EXPECT_EQ(report.rows[0].bytes, 4000u);
  EXPECT_EQ(report.rows[0].place, "async_test.cpp:" + std::to_string(__LINE__ - 5));
}

// The next batch reaches the device while a step computes.
TEST(Async, AnUploadToFreshMemoryDoesNotWaitForWork) {
  if (test_device().is_cpu()) GTEST_SKIP() << "nothing moves";
  const std::vector<float> batch = numbers(1 << 20, 7);
  const auto upload = [&] { return from_vector(batch, {1 << 20}, here()); };
  long_work(30).eval();
  const Tensor warm = upload();
  synchronize(test_device());
  const Tensor work = long_work(30);
  const Event computed = work.eval_async();
  const Tensor next = upload();
  const Event uploaded = next.eval_async();
  uploaded.wait();
  EXPECT_FALSE(computed.done()) << "the upload waited for the work, or the work was too short";
  computed.wait();
  EXPECT_EQ(next.to_vector<float>(), batch);
}

// The trace of the profiler shows that copies run in parallel to computations.
TEST(Async, TheProfileShowsCopiesBesideWork) {
  if (test_device().is_cpu()) GTEST_SKIP() << "nothing moves";
  const std::vector<float> batch = numbers(1 << 20, 8);
  long_work(30).eval();
  Tensor next = from_vector(batch, {1 << 20}, here());
  synchronize(test_device());
  Profiler profiler;
  (ones({16}, here()) + 1).eval();  // the first work of a recording synchronises the clocks
  synchronize(test_device());
  const Event computed = long_work(30).eval_async();
  const Tensor later = from_vector(batch, {1 << 20}, here());
  const AsyncValues<float> values = later.to_vector_async<float>();
  EXPECT_EQ(values.get(), batch);
  computed.wait();
  const Profile profile = profiler.stop();
  double work_begin = 1e9, work_end = 0;
  const ProfileEvent *upload = nullptr, *download = nullptr;
  for (const ProfileEvent& event : profile.events) {
    if (event.kind == "matmul") {
      work_begin = std::min(work_begin, event.start);
      work_end = std::max(work_end, event.start + event.seconds);
    }
    if (event.kind == "upload" && event.bytes == 4 << 20) upload = &event;
    if (event.kind == "download" && event.bytes == 4 << 20) download = &event;
  }
  ASSERT_NE(upload, nullptr);
  ASSERT_NE(download, nullptr);
  EXPECT_LT(upload->start + upload->seconds, work_end);
  EXPECT_LT(download->start + download->seconds, work_end);
  EXPECT_GE(download->start, upload->start);
  EXPECT_LE(profile.busy_seconds(test_device()), profile.seconds * 1.001);
}

// Batches of random sizes that are used by slow work and dropped at once, so that the next batch
// reuses their memory. Every value is compared.
class AsyncStress : public testing::Test {
 protected:
  void SetUp() override {
    synchronize(test_device());
    empty_cache(test_device());
    set_memory_limit(test_device(),
                     memory_stats(test_device()).reserved + (std::uint64_t{24} << 20));
  }
  void TearDown() override { set_memory_limit(test_device(), 0); }

  static int rounds(int device, int cpu) { return test_device().is_cpu() ? cpu : device; }
};

std::int64_t sum_of(const std::vector<float>& values) {
  std::int64_t sum = 0;
  for (const float value : values) sum += static_cast<std::int64_t>(value);
  return sum;
}

TEST_F(AsyncStress, BatchesOfRandomSizesInLittleMemory) {
  // Only a few sizes, because each one has a plan of its own.
  constexpr std::size_t kSizes[] = {20'000, 70'000, 300'000, 1'000'000};
  std::vector<std::vector<float>> batches;
  for (unsigned i = 0; i < 12; ++i) batches.push_back(numbers(kSizes[i % 4], 100 + i));
  std::minstd_rand random(42);
  struct Result {
    AsyncValues<std::int64_t> sum;
    std::int64_t expected;
  };
  std::deque<Result> results;
  for (int round = 0; round < rounds(1500, 100); ++round) {
    const std::vector<float>& batch = batches[random() % batches.size()];
    const auto count = static_cast<std::int64_t>(batch.size());
    AsyncValues<std::int64_t> sum;
    {
      const Tensor x = from_vector(batch, {count}, here());
      // Several passes over the memory, so that it is read long after the next upload.
      Tensor y = x + 1;
      y.eval();
      for (int pass = 0; pass < 2; ++pass) {
        y = y.flip(0) + x - x.flip(0) + 1;
        y.eval();
      }
      // y is x + 3 by now.
      sum = y.to(DType::i64).sum().to_vector_async<std::int64_t>();
    }
    results.push_back({std::move(sum), sum_of(batch) + 3 * count});
    while (results.size() > 8) {
      ASSERT_EQ(results.front().sum.get().front(), results.front().expected) << "round " << round;
      results.pop_front();
    }
  }
  for (const Result& result : results) ASSERT_EQ(result.sum.get().front(), result.expected);
}

TEST_F(AsyncStress, EveryElementArrivesAsItWas) {
  std::minstd_rand random(7);
  std::deque<std::pair<AsyncValues<float>, std::vector<float>>> results;
  for (int round = 0; round < rounds(600, 60); ++round) {
    const std::size_t count = 20'000 + 1000 * (random() % 400);
    std::vector<float> batch = numbers(count, static_cast<unsigned>(round));
    AsyncValues<float> values;
    {
      // The upload alone, to memory that uploads, downloads and work of others used just before.
      const Tensor x = from_vector(batch, {static_cast<std::int64_t>(count)}, here());
      values = x.to_vector_async<float>();
      if (round % 3 == 0) {
        const Tensor work = full({500, 1000}, round % 100, here()) + 1;
        work.eval();
      }
    }
    std::ranges::fill(batch, 0.0f);  // the caller may reuse its memory
    batch = numbers(count, static_cast<unsigned>(round));
    results.emplace_back(std::move(values), std::move(batch));
    if (results.size() > 4) {
      ASSERT_EQ(results.front().first.get(), results.front().second) << "round " << round;
      results.pop_front();
    }
  }
  for (const auto& [values, batch] : results) ASSERT_EQ(values.get(), batch);
}

// As in a data loader, threads upload ahead while another one computes. Adjacent arrays are
// uploaded in groups through one buffer and split on the device.
TEST(Async, GroupsOfArraysArriveAsTheyWere) {
  constexpr std::size_t kArrays = 40, kElements = 1 << 20;  // five groups
  const std::vector<float> values = numbers(kArrays * kElements, 9);
  std::vector<detail::HostArray> arrays;
  for (std::size_t i = 0; i < kArrays; ++i)
    arrays.push_back({values.data() + i * kElements, {1 << 20}, DType::f32});
  for (const bool busy : {false, true}) {
    Tensor work;
    if (busy) {
      work = long_work(6);
      work.eval_async();
    }
    const std::vector<Tensor> tensors = detail::upload_all("load", arrays, test_device());
    for (std::size_t i = 0; i < kArrays; ++i) {
      const std::vector<float> got = tensors[i].to_vector<float>();
      ASSERT_TRUE(std::equal(got.begin(), got.end(),
                             values.begin() + static_cast<std::ptrdiff_t>(i * kElements)))
          << "array " << i << (busy ? ", device busy" : "");
    }
  }
}

TEST_F(AsyncStress, ThreadsUploadWhileAnotherComputes) {
  constexpr int kThreads = 3;
  const int each = rounds(200, 30);
  constexpr std::size_t kCount = 100'000;
  struct Slot {
    std::atomic<int> filled{0};
    Tensor x;
    float expected = 0;
  };
  std::array<Slot, kThreads> slots;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Slot& slot = slots[static_cast<std::size_t>(t)];
      for (int i = 0; i < each; ++i) {
        const std::vector<float> batch(kCount, static_cast<float>(1000 * t + i));
        const Tensor x = from_vector(batch, {kCount}, here());
        slot.filled.wait(1);
        slot.x = x;
        slot.expected = batch[0];
        slot.filled = 1;
        slot.filled.notify_all();
      }
    });
  }
  int wrong = 0;  // the threads must be joined in any case
  for (int i = 0; i < each; ++i) {
    for (Slot& slot : slots) {
      slot.filled.wait(0);
      const Tensor x = std::exchange(slot.x, Tensor());
      const float expected = slot.expected;
      slot.filled = 0;
      slot.filled.notify_all();
      const Tensor y = x * 2 + x.flip(0);
      const Tensor least = y.min(), most = y.max();
      const std::array both{least, most};
      eval_async(both).wait();
      if (least.item() != 3 * expected || most.item() != 3 * expected) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
}

// A batch is complete when it is used, and the memory in which it was assembled is not refilled
// before it was copied.
TEST_F(AsyncStress, BatchesOfALoaderAreComplete) {
  constexpr std::int64_t kExamples = 512, kWidth = 4096;
  std::vector<float> values(kExamples * kWidth);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i / kWidth * 10 + i % kWidth % 7);
  const data::TensorDataset dataset(from_vector(values, {kExamples, kWidth}),
                                    arange(kExamples).to(DType::i64));
  for (const int workers : {0, 3}) {
    data::DataLoader loader(dataset, {.batch_size = 32,
                                      .shuffle = true,
                                      .workers = workers,
                                      .prefetch = 2,
                                      .device = test_device(),
                                      .seed = 11});
    int batches = 0;
    for (int epoch = 0; epoch < rounds(8, 2); ++epoch) {
      for (const data::Batch& batch : loader) {
        // Compares with a model of the example's row on the device; then compares every element of
        // some.
        const Tensor row = batch.y.to(DType::f32).reshape({-1, 1}) * 10;
        const Tensor column = arange(kWidth, {.dtype = DType::f32, .device = test_device()}) % 7;
        const Tensor wrong = (batch.x - (row + column)).abs().max();
        if (batches++ % 8 == 0) {
          const std::vector<float> got = batch.x.to_vector<float>();
          const std::vector<std::int64_t> which = batch.y.to_vector<std::int64_t>();
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got[i],
                      values[static_cast<std::size_t>(which[i / kWidth]) * kWidth + i % kWidth]);
        }
        ASSERT_EQ(wrong.item(), 0) << "batch " << batches << ", workers " << workers;
      }
    }
  }
}

}  // namespace
}  // namespace volta
