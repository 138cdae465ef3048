// What loaders do when an example cannot be loaded.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "data/data_testing.h"
#include "data/loader_testing.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using data::Batch;
using data::DataLoader;
using data_testing::epoch_y;
using data_testing::expect_error;
using data_testing::Failing;
using data_testing::numbered;

TEST(DataLoader, ErrorsArriveWithTheExamplesIndex) {
  for (const int workers : {0, 1, 3}) {
    DataLoader volta_error(Failing<IoError>(21), {.batch_size = 4, .workers = workers});
    std::int64_t seen = 0;
    expect_error<IoError>(
        [&] {
          for (auto [x, y] : volta_error) ++seen;
        },
        {"DataLoader: example 21: broken file"});
    EXPECT_EQ(seen, 5) << workers;  // all batches before it
    // The loader can be used again.
    expect_error<IoError>([&] { epoch_y(volta_error); }, {"example 21"});
  }
}

// Exceptions of users, including one derived from Volta's.
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
  int code = 7;
};
struct OwnIoError : IoError {
  using IoError::IoError;
};

TEST(DataLoader, ExceptionsOfOthersArriveAsTheyWereThrown) {
  std::vector<std::string> told;
  set_log_handler([&](LogLevel, std::string_view message) { told.emplace_back(message); });
  for (const int workers : {0, 2}) {
    DataLoader own(Failing<OwnError>(2), {.batch_size = 4, .workers = workers});
    try {
      epoch_y(own);
      ADD_FAILURE();
    } catch (const OwnError& error) {
      EXPECT_STREQ(error.what(), "broken file");
      EXPECT_EQ(error.code, 7);
    }
    DataLoader derived(Failing<OwnIoError>(2), {.batch_size = 4, .workers = workers});
    EXPECT_THROW(epoch_y(derived), OwnIoError);
    const data::Transform failing =
        data::on_batches([](const Batch&) -> Batch { throw OwnError("no batch"); });
    DataLoader batches(numbered(8), {.batch_size = 4, .workers = workers, .transform = failing});
    EXPECT_THROW(epoch_y(batches), OwnError);
  }
  set_log_handler({});
  const std::vector<std::string> once{"DataLoader: example 2: broken file",
                                      "DataLoader: example 2: broken file",
                                      "DataLoader: batch of examples 0 to 3: no batch"};
  std::vector<std::string> expected = once;
  expected.insert(expected.end(), once.begin(), once.end());
  EXPECT_EQ(told, expected);
}

TEST(DataLoader, ABatchThatFailsIsSkipped) {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(Failing<IoError>(9), {.batch_size = 4, .workers = workers, .seed = 1});
    std::vector<std::int64_t> firsts;
    int failures = 0;
    StateDict after;
    for (auto it = loader.begin(); it != loader.end();) {
      if (it->y.defined()) firsts.push_back(it->y.to_vector<std::int64_t>()[0]);
      try {
        ++it;
      } catch (const IoError&) {
        after = loader.state_dict();
        ASSERT_EQ(++failures, 1);
      }
    }
    EXPECT_EQ(firsts,
              (std::vector<std::int64_t>{0, 4, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60}))
        << workers;
    EXPECT_EQ(loader.epoch(), 1);
    EXPECT_EQ(loader.stats().batches, 15);
    // A loader that continues after it does not fail again.
    DataLoader resumed(Failing<IoError>(9), {.batch_size = 4, .workers = workers, .seed = 1});
    resumed.load_state_dict(after);
    EXPECT_EQ(epoch_y(resumed).front(), 12);
  }
}
