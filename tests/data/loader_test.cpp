// DataLoader: its batches and their order for any number of workers; options and counters.
#include "volta/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/data_testing.h"
#include "data/loader_testing.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/data.h"
#include "volta/transfers.h"
#include "volta/volta.h"

using namespace volta;
using data::Batch;
using data::DataLoader;
using data::Example;
using data_testing::Drawn;
using data_testing::epoch_x;
using data_testing::epoch_y;
using data_testing::expect_error;
using data_testing::Failing;
using data_testing::numbered;
using data_testing::Values;

static_assert(std::input_iterator<DataLoader::Iterator>);

TEST(DataLoader, HandsOutRowsInOrderOnTheDevice) {
  DataLoader loader(numbered(7), {.batch_size = 3, .device = test_device()});
  EXPECT_EQ(loader.size(), 3);
  std::vector<std::int64_t> sizes;
  std::int64_t next = 0;
  for (auto [x, y] : loader) {
    EXPECT_EQ(x.device(), test_device());
    EXPECT_FALSE(x.is_pending());
    EXPECT_EQ(x.dtype(), DType::f32);
    EXPECT_EQ(y.dtype(), DType::i64);
    sizes.push_back(x.size(0));
    const auto values = x.to_vector<float>();
    const auto labels = y.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i, ++next) {
      EXPECT_EQ(labels[i], next);
      EXPECT_EQ(values[2 * i], static_cast<float>(next));
      EXPECT_EQ(values[2 * i + 1], static_cast<float>(next) + 0.5f);
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{3, 3, 1}));

  DataLoader whole(numbered(7), {.batch_size = 3, .drop_last = true});
  EXPECT_EQ(whole.size(), 2);
  EXPECT_EQ(epoch_y(whole), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  DataLoader none(numbered(0), {.batch_size = 3});
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(epoch_y(none).empty());
}

TEST(DataLoader, ShufflesEveryEpochAnewAndReproducibly) {
  DataLoader loader(numbered(100), {.batch_size = 8, .shuffle = true, .seed = 5});
  const auto first = epoch_y(loader), second = epoch_y(loader);
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 100u);
  EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), 100u);
  EXPECT_NE(first, second);
  std::vector<std::int64_t> sorted(100);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_NE(first, sorted);
  for (const int workers : {0, 1, 2, 5}) {
    DataLoader again(numbered(100),
                     {.batch_size = 8, .shuffle = true, .workers = workers, .seed = 5});
    EXPECT_EQ(epoch_y(again), first) << workers;
    EXPECT_EQ(epoch_y(again), second) << workers;
  }
  DataLoader other(numbered(100), {.batch_size = 8, .shuffle = true, .seed = 6});
  EXPECT_NE(epoch_y(other), first);
}

TEST(DataLoader, TheThreadsSeedIsItsSeed) {
  const auto order = [](std::uint64_t seed) {
    manual_seed(seed);
    const GeneratorState before = Generator().state();
    DataLoader loader(numbered(50), {.batch_size = 50, .shuffle = true});
    const GeneratorState made = Generator().state();
    EXPECT_NE(made, before);  // creating it draws the seed
    const auto all = epoch_y(loader);
    EXPECT_EQ(Generator().state(), made);  // using it draws nothing
    return all;
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

TEST(DataLoader, LoadersWithoutASeedDiffer) {
  const auto orders = [] {
    manual_seed(3);
    DataLoader one(numbered(50), {.batch_size = 50, .shuffle = true});
    DataLoader two(numbered(50), {.batch_size = 50, .shuffle = true});
    return std::pair{epoch_y(one), epoch_y(two)};
  };
  const auto [one, two] = orders();
  EXPECT_NE(one, two);
  EXPECT_EQ(orders(), (std::pair{one, two}));
  manual_seed(3);
  const GeneratorState before = Generator().state();
  DataLoader seeded(numbered(50), {.shuffle = true, .seed = 1});
  EXPECT_EQ(Generator().state(), before);
}

// A sampler may choose an example twice; random numbers are then drawn twice.
TEST(DataLoader, AnExampleThatIsChosenTwiceIsChangedAnew) {
  class Same : public data::Sampler {
   public:
    std::int64_t size() const override { return 12; }
    std::vector<std::int64_t> order(std::uint64_t, std::int64_t) const override {
      return std::vector<std::int64_t>(12, 3);
    }
  };
  const auto distinct = [](const Values& batches) {
    std::set<float> values;
    for (const auto& batch : batches) values.insert(batch.begin(), batch.end());
    return values.size();
  };
  const data::Transform noise([](const Batch& batch, std::span<data::Random> random) {
    std::vector<float> values;
    for (data::Random& of_example : random) values.push_back(of_example.uniform());
    return Batch{from_vector(values), batch.y};
  });
  const data::Transform of_thread =
      data::on_batches([](const Batch& batch) { return Batch{rand({batch.x.size(0)}), batch.y}; });
  const auto loader_with = [&](const data::AnyDataset& dataset, const data::Transform& transform,
                               int workers) {
    return DataLoader(dataset, {.batch_size = 4,
                                .workers = workers,
                                .seed = 2,
                                .sampler = std::make_shared<Same>(),
                                .transform = transform});
  };
  struct Kind {
    data::AnyDataset dataset;
    data::Transform transform;
    std::size_t draws;
  };
  for (const Kind& kind :
       {Kind{Drawn(5), {}, 24}, Kind{numbered(5), noise, 12}, Kind{numbered(5), of_thread, 12}}) {
    DataLoader alone = loader_with(kind.dataset, kind.transform, 0);
    const GeneratorState before = Generator().state();
    const Values expected = epoch_x(alone);
    EXPECT_EQ(Generator().state(), before);
    EXPECT_EQ(distinct(expected), kind.draws);
    DataLoader threads = loader_with(kind.dataset, kind.transform, 3);
    EXPECT_EQ(epoch_x(threads), expected);
    // A loader that begins with the second batch.
    DataLoader left = loader_with(kind.dataset, kind.transform, 2);
    for (auto [x, y] : left) break;
    DataLoader resumed = loader_with(kind.dataset, kind.transform, 1);
    resumed.load_state_dict(left.state_dict());
    EXPECT_EQ(epoch_x(resumed), (Values{expected[1], expected[2]}));
  }
}

TEST(DataLoader, WhatExamplesDrawDependsOnSeedEpochAndIndexAlone) {
  const auto loader_with = [](int workers, std::int64_t batch_size) {
    return DataLoader(Drawn(24), {.batch_size = batch_size, .workers = workers, .seed = 9});
  };
  DataLoader alone = loader_with(0, 4);
  manual_seed(1);
  const GeneratorState before = Generator().state();
  const Values first = epoch_x(alone), second = epoch_x(alone);
  EXPECT_EQ(Generator().state(), before);
  EXPECT_NE(first, second);
  DataLoader three = loader_with(3, 4);
  EXPECT_EQ(epoch_x(three), first);
  EXPECT_EQ(epoch_x(three), second);
  // Other batches of the same examples.
  DataLoader one = loader_with(2, 24);
  std::vector<float> joined;
  for (const auto& batch : first) joined.insert(joined.end(), batch.begin(), batch.end());
  EXPECT_EQ(epoch_x(one).at(0), joined);
}

TEST(DataLoader, GatheredAndCollatedBatchesAreTheSame) {
  const data::TensorDataset rows = numbered(20);
  const auto same = data::map(rows, [](const Example& example) { return example; });
  EXPECT_TRUE(rows.layout().has_value());
  EXPECT_FALSE(same.layout().has_value());
  DataLoader gathered(rows, {.batch_size = 6, .shuffle = true, .seed = 1});
  DataLoader collated(same, {.batch_size = 6, .shuffle = true, .seed = 1});
  EXPECT_EQ(epoch_x(gathered), epoch_x(collated));
  EXPECT_EQ(epoch_y(gathered), epoch_y(collated));
}

TEST(DataLoader, CollatesAsTold) {
  data::DataLoaderOptions options{.batch_size = 4};
  options.collate = [](const std::vector<Example>& examples) {
    Tensor sum = examples[0].x;
    for (std::size_t i = 1; i < examples.size(); ++i) sum = sum + examples[i].x;
    return Batch{sum, {}};
  };
  DataLoader loader(numbered(8), options);
  std::vector<std::vector<float>> sums;
  for (auto [x, y] : loader) {
    EXPECT_FALSE(y.defined());
    EXPECT_FALSE(x.is_pending());
    sums.push_back(x.to_vector<float>());
  }
  EXPECT_EQ(sums, (Values{{6, 8}, {22, 24}}));
}

TEST(DataLoader, ExamplesThatDoNotStackAreNamed) {
  const auto uneven = data::map(numbered(8), [](const Example& example) {
    const auto index = example.y.item<std::int64_t>();
    return Example{zeros({index == 5 ? 3 : 2}), example.y};
  });
  DataLoader loader(uneven, {.batch_size = 4});
  expect_error<ShapeError>([&] { epoch_x(loader); }, {"x of example 5 is [3], of example 4 [2]"});
}

TEST(DataLoader, OneLoopAtATime) {
  DataLoader loader(numbered(6), {.batch_size = 2});
  for (auto [x, y] : loader) {
    expect_error<ArgumentError>([&] { loader.begin(); }, {"a loop over this loader is under way"});
    expect_error<ArgumentError>([&] { loader.load_state_dict(loader.state_dict()); },
                                {"a loop over this loader is under way"});
    break;
  }
  EXPECT_EQ(epoch_y(loader).size(), 6u);
}

TEST(DataLoader, SamplersDecideTheOrder) {
  class Backwards : public data::Sampler {
   public:
    explicit Backwards(std::int64_t shift) : shift_(shift) {}
    std::int64_t size() const override { return 5; }
    std::vector<std::int64_t> order(std::uint64_t, std::int64_t epoch) const override {
      std::vector<std::int64_t> indices;
      for (std::int64_t i = 5; i-- > 0;) indices.push_back(i + shift_ + epoch);
      return indices;
    }

   private:
    std::int64_t shift_;
  };
  DataLoader loader(numbered(20), {.batch_size = 2, .sampler = std::make_shared<Backwards>(0)});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(epoch_y(loader), (std::vector<std::int64_t>{4, 3, 2, 1, 0}));
  EXPECT_EQ(epoch_y(loader), (std::vector<std::int64_t>{5, 4, 3, 2, 1}));
  DataLoader beyond(numbered(20), {.sampler = std::make_shared<Backwards>(16)});
  expect_error<ArgumentError>([&] { beyond.begin(); }, {"the sampler gave index 20 of 20"});
  EXPECT_EQ(beyond.epoch(), 0);
  expect_error<ArgumentError>([&] { beyond.begin(); }, {"the sampler gave index 20 of 20"});
  EXPECT_EQ(beyond.epoch(), 0);  // a loop that does not start is not an epoch

  const auto weighted =
      std::make_shared<data::WeightedSampler>(std::vector<double>{0, 1, 3, 0}, std::int64_t{4000});
  DataLoader drawn(numbered(4), {.batch_size = 100, .seed = 0, .sampler = weighted});
  std::vector<int> counts(4);
  for (const std::int64_t index : epoch_y(drawn)) ++counts[static_cast<std::size_t>(index)];
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(counts[3], 0);
  EXPECT_NEAR(counts[2], 3000, 150);
  expect_error<ArgumentError>([] { data::WeightedSampler({0, 0}, 3); }, {"all weights are 0"});
  expect_error<ArgumentError>([] { data::WeightedSampler({1, -1}, 3); }, {"a weight of -1"});
}

TEST(DataLoader, TransformsDrawForEveryExampleAndEpoch) {
  const data::ImageDataset images = data::digits(data::Split::train, {.count = 40});
  const auto loader_with = [&](int workers, std::int64_t batch_size) {
    return DataLoader(images, {.batch_size = batch_size,
                               .workers = workers,
                               .seed = 4,
                               .transform = data::random_crop(28, 28, {.padding = 3})});
  };
  DataLoader alone = loader_with(0, 10), threads = loader_with(3, 10), whole = loader_with(1, 40);
  const Values first = epoch_x(alone), second = epoch_x(alone);
  EXPECT_NE(first, second);
  EXPECT_EQ(epoch_x(threads), first);
  EXPECT_EQ(epoch_x(threads), second);
  std::vector<float> joined;
  for (const auto& batch : first) joined.insert(joined.end(), batch.begin(), batch.end());
  EXPECT_EQ(epoch_x(whole).at(0), joined);
}

// Whatever VOLTA_DEVICE says, examples, collation and transforms are computed on the host, and the
// whole batch is sent to the loader's device.
TEST(DataLoader, WorksOnTheHostWhereTheEnvironmentPlacesEverythingOnADevice) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  const std::string name = to_string(test_device());
  testing_child::in_child({{"VOLTA_DEVICE", name}, {"VOLTA_TEST_DEVICE", name}}, [] {
    const Device device = test_device();
    ASSERT_EQ((tensor({1, 2, 3}) + 1).device(), device);  // the program's own operations
    std::atomic<int> elsewhere{0}, calls{0};
    const auto look = [&](const Tensor& x) {
      ++calls;
      if (!x.device().is_cpu()) ++elsewhere;
      return x;
    };
    const data::Transform twice([&](Batch batch, std::span<data::Random>) {
      look(batch.x);
      batch.x = look(batch.x * 2.0 + look(ones({2})));
      return batch;
    });
    const auto first = [&](const std::vector<Example>& examples) {
      return Batch{look(look(examples.front().x).reshape({1, 2})),
                   look(look(examples.front().y).reshape({1}))};
    };
    const data::TensorDataset dataset = numbered(8);
    for (const int workers : {0, 2}) {
      reset_transfers();
      DataLoader gathered(
          dataset, {.batch_size = 4, .workers = workers, .device = device, .transform = twice});
      std::vector<float> values;
      for (const auto& [x, y] : gathered) {
        EXPECT_EQ(x.device(), device);
        EXPECT_EQ(y.device(), device);
        for (const float value : x.to_vector<float>()) values.push_back(value);
      }
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(values[i], static_cast<float>(i / 2) * 2 + (i % 2 ? 2 : 1)) << i;
      EXPECT_EQ(values.size(), 16u);
      DataLoader collated(Drawn(4), {.batch_size = 2,
                                     .workers = workers,
                                     .device = device,
                                     .transform = twice,
                                     .collate = first});
      for (const auto& [x, y] : collated) EXPECT_EQ(x.device(), device);
      for (const TransferRow& row : transfer_report().rows) {
        if (row.to_device) {
          EXPECT_EQ(row.reason, "data loader") << row.place;
        } else {
          EXPECT_EQ(row.reason, "to_vector") << row.place;
        }
      }
    }
    EXPECT_EQ(elsewhere, 0);
    EXPECT_GE(calls, 2 * (2 * 3 + 2 * 7));
  });
}

TEST(DataLoader, CountsWhatItDid) {
  DataLoader loader(numbered(10), {.batch_size = 4, .workers = 2});
  epoch_y(loader);
  data::LoaderStats stats = loader.stats();
  EXPECT_EQ(stats.batches, 3);
  EXPECT_EQ(stats.bytes, 10 * (2 * 4 + 8));
  EXPECT_LE(stats.waits, 2);  // the first batch of an epoch does not count
  loader.reset_stats();
  EXPECT_EQ(loader.stats().batches, 0);

  // Examples take 2 ms each and the consumer takes no time, so it waits for every batch.
  DataLoader slow(Failing<IoError>(-1, 2), {.batch_size = 8, .workers = 1});
  epoch_y(slow);
  EXPECT_GE(slow.stats().waits, 6);
  EXPECT_GT(slow.stats().seconds_waited, 0.05);
  EXPECT_GT(slow.stats().first_seconds, 0.01);
}

TEST(DataLoader, PrefetchesAtMostAsToldAndStops) {
  static std::atomic<int> asked;
  class Counting : public data::Dataset {
   public:
    std::int64_t size() const override { return 1000; }
    Example get(std::int64_t index) const override {
      ++asked;
      return {scalar(index), {}};
    }
  };
  asked = 0;
  {
    DataLoader loader(Counting(), {.batch_size = 1, .workers = 2, .prefetch = 3});
    auto it = loader.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(asked.load(), 1 + 2 * 3);
  }
  const int at_end = asked;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(asked.load(), at_end);
}

TEST(DataLoader, OptionsAreChecked) {
  const auto make = [](data::DataLoaderOptions options) { DataLoader(numbered(4), options); };
  expect_error<ArgumentError>([&] { make({.batch_size = 0}); }, {"batch_size must be at least 1"});
  expect_error<ArgumentError>([&] { make({.workers = -1}); }, {"workers must be 0 to 256, got -1"});
  expect_error<ArgumentError>([&] { make({.prefetch = 0}); }, {"prefetch must be 1 to 1024"});
  expect_error<ArgumentError>(
      [&] {
        make({.shuffle = true,
              .sampler = std::make_shared<data::WeightedSampler>(std::vector<double>{1, 1}, 2)});
      },
      {"shuffle must be false"});
  expect_error<ArgumentError>([] { DataLoader(std::shared_ptr<const data::Dataset>()); },
                              {"a null pointer"});
}

TEST(DataLoader, SizesOfDatasetsAndSamplersAreChecked) {
  struct Sized : data::Dataset {
    std::int64_t count;
    explicit Sized(std::int64_t n) : count(n) {}
    std::int64_t size() const override { return count; }
    data::Example get(std::int64_t) const override { return {ones({1}), {}}; }
  };
  struct Orderless : data::Sampler {
    std::int64_t count;
    explicit Orderless(std::int64_t n) : count(n) {}
    std::int64_t size() const override { return count; }
    std::vector<std::int64_t> order(std::uint64_t, std::int64_t) const override { return {}; }
  };
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{1} << 62}) {
    expect_error<ArgumentError>([&] { DataLoader(Sized(count), {}); },
                                {"DataLoader: the dataset's size must be 0 to 1099511627776, got " +
                                 std::to_string(count)});
    expect_error<ArgumentError>(
        [&] { DataLoader(Sized(2), {.sampler = std::make_shared<Orderless>(count)}); },
        {"DataLoader: the sampler's size must be 0 to 1099511627776, got " +
         std::to_string(count)});
  }
}

TEST(DataLoader, FeedsATrainingLoop) {
  manual_seed(7);
  const Device device = test_device();
  DataLoader train(data::digits(data::Split::train, {.count = 64}),
                   {.batch_size = 16, .shuffle = true, .device = device});
  nn::Linear model(784, 10);
  model.to(device);
  optim::SGD opt(model.parameters(), {.lr = 0.1});
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (auto [x, y] : progress(train, "epoch", {.enabled = false})) {
      opt.zero_grad();
      Tensor loss = cross_entropy(model(x.flatten(1)), y);
      loss.backward();
      opt.step();
      last = loss.item();
      if (first == 0) first = last;
    }
  }
  EXPECT_LT(last, 0.7 * first);
}
