// Epochs that are left, and loaders that resume.
#include <gtest/gtest.h>

#include <vector>

#include "data/data_testing.h"
#include "data/loader_testing.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using data::DataLoader;
using data_testing::Drawn;
using data_testing::epoch_x;
using data_testing::epoch_y;
using data_testing::expect_error;
using data_testing::Failing;
using data_testing::numbered;
using data_testing::Values;

TEST(DataLoader, MayBeLeftAndDestroyedInMidEpoch) {
  for (int round = 0; round < 20; ++round) {
    DataLoader loader(numbered(1000), {.batch_size = 2, .workers = 1 + round % 4, .prefetch = 3});
    int left = round % 5;
    for (auto [x, y] : loader)
      if (left-- == 0) break;
  }
  std::optional<DataLoader::Iterator> kept;
  {
    DataLoader loader(Failing<IoError>(-1, 2), {.batch_size = 2, .workers = 2});
    kept = loader.begin();
  }
  EXPECT_EQ((*kept)->x.size(0), 2);  // an iterator keeps what it needs alive
  ++*kept;
  EXPECT_EQ((*kept)->y.to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
}

TEST(DataLoader, ResumesInMidEpoch) {
  const data::DataLoaderOptions options{.batch_size = 4, .shuffle = true, .workers = 2};
  for (const bool within : {true, false}) {  // saved inside the loop, or after leaving it
    manual_seed(11);
    DataLoader loader(Drawn(32), options);
    epoch_x(loader);
    StateDict state;
    int batches = 0;
    for (auto [x, y] : loader) {
      if (++batches < 3) continue;
      if (within) state = loader.state_dict();
      break;
    }
    if (!within) state = loader.state_dict();

    manual_seed(11);
    DataLoader whole(Drawn(32), options);
    epoch_x(whole);
    Values expected = epoch_x(whole);
    expected.erase(expected.begin(), expected.begin() + 3);
    const Values next = epoch_x(whole);

    manual_seed(99);
    DataLoader resumed(Drawn(32), options);
    resumed.load_state_dict(state);
    EXPECT_EQ(resumed.epoch(), 1);
    EXPECT_EQ(resumed.position(), 3);
    EXPECT_EQ(resumed.next_position(), 3);
    EXPECT_EQ(epoch_x(resumed), expected);
    EXPECT_EQ(epoch_x(resumed), next);
  }
}

TEST(DataLoader, AnEpochThatIsDoneResumesWithTheNext) {
  DataLoader loader(numbered(4), {.batch_size = 2, .shuffle = true, .seed = 3});
  StateDict last;
  for (auto [x, y] : loader) last = loader.state_dict();
  EXPECT_EQ(last.at("epoch").item<std::int64_t>(), 1);
  EXPECT_EQ(last.at("position").item<std::int64_t>(), 0);
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_EQ(loader.next_position(), 0);
}

TEST(DataLoader, StatesThatDoNotFitAreRefusedAndChangeNothing) {
  DataLoader loader(numbered(8), {.batch_size = 2, .seed = 1});
  DataLoader other(numbered(9), {.batch_size = 2, .seed = 2});
  expect_error<ArgumentError>([&] { loader.load_state_dict(other.state_dict()); },
                              {"it is of 9 examples, not 8"});
  expect_error<ArgumentError>(
      [&] { loader.load_state_dict({{"seed", scalar(1)}, {"epoch", scalar(0.5f)}}); },
      {"'epoch' is no i64 number", "'position' is missing", "'batch_size' is missing"});
  // One error lists all differences.
  const auto weighted = [](std::int64_t count) {
    return std::make_shared<data::WeightedSampler>(std::vector<double>(8, 1.0), count);
  };
  DataLoader shuffled(numbered(8), {.batch_size = 2, .shuffle = true, .seed = 1});
  DataLoader sampled(numbered(8),
                     {.batch_size = 3, .drop_last = true, .seed = 4, .sampler = weighted(6)});
  expect_error<ArgumentError>(
      [&] { shuffled.load_state_dict(sampled.state_dict()); },
      {"its order is a sampler's, not shuffled; an epoch of it has 6 examples, not 8; it is of "
       "batches of 3, not 2; its drop_last is true, not false; its seed is 4, not 1"});
  expect_error<ArgumentError>([&] { shuffled.load_state_dict(loader.state_dict()); },
                              {"cannot load the state: its order is the dataset's, not shuffled"});
  class Fixed : public data::Sampler {
   public:
    std::int64_t size() const override { return 6; }
    std::vector<std::int64_t> order(std::uint64_t, std::int64_t) const override {
      return {0, 1, 2, 3, 4, 5};
    }
  };
  const auto with_sampler = [&](const std::shared_ptr<const data::Sampler>& sampler) {
    return DataLoader(numbered(8), {.batch_size = 3, .drop_last = true, .sampler = sampler});
  };
  DataLoader fixed = with_sampler(std::make_shared<Fixed>());
  expect_error<ArgumentError>([&] { fixed.load_state_dict(sampled.state_dict()); },
                              {"cannot load the state: its sampler is of another type"});
  DataLoader fewer = with_sampler(weighted(5)), same = with_sampler(weighted(6));
  expect_error<ArgumentError>([&] { fewer.load_state_dict(sampled.state_dict()); },
                              {"cannot load the state: an epoch of it has 6 examples, not 5"});
  same.load_state_dict(sampled.state_dict());
  StateDict wrong;
  for (const auto& [name, value] : loader.state_dict())
    wrong.add(name, name == "position" ? scalar(5) : value);
  expect_error<ArgumentError>([&] { loader.load_state_dict(wrong); },
                              {"it stands at batch 5 of epoch 0"});
  StateDict more = loader.state_dict();
  more.add("stranger", scalar(1));
  expect_error<ArgumentError>([&] { loader.load_state_dict(more); }, {"it has other entries"});
  EXPECT_EQ(loader.epoch(), 0);
  EXPECT_EQ(epoch_y(loader).size(), 8u);
}
