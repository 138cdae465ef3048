// DataLoader in processes that may not start the threads that it needs.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/child.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;

namespace {

// Lets this process start `more` threads. Root is not limited, and for users with other processes
// the limit cannot be computed, so none are allowed.
bool allow_threads(int more) {
  constexpr uid_t kNobodyElse = 61236;
  if (::geteuid() == 0 && ::setuid(kNobodyElse) != 0) return false;
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  const bool alone = ::geteuid() == kNobodyElse;
  const rlim_t most = alone ? static_cast<rlim_t>(threads + more) : 0;
  const rlimit limit{most, most};
  return ::setrlimit(RLIMIT_NPROC, &limit) == 0;
}

// Checks epochs of several sizes twice with eight workers, of which only some or none can start.
void expect_all_batches(int threads) {
  constexpr std::int64_t kCount = 40;
  std::vector<std::string> told;
  set_log_handler([&](LogLevel, std::string_view text) { told.emplace_back(text); });
  const Tensor numbers = arange(kCount).to(DType::i64);
  data::DataLoader loader(data::TensorDataset(ones({kCount, 2}), numbers),
                          {.batch_size = 4, .workers = 8});
  if (!allow_threads(threads)) GTEST_SKIP() << "processes cannot be limited here";
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::int64_t next = 0;
    for (const auto& [x, y] : loader)
      for (const std::int64_t value : y.to_vector<std::int64_t>()) EXPECT_EQ(value, next++);
    EXPECT_EQ(next, kCount);
  }
  set_log_handler(nullptr);
  EXPECT_EQ(std::ranges::count_if(told,
                                  [](const std::string& text) {
                                    return text.find("of 8 workers could be started") !=
                                           std::string::npos;
                                  }),
            1);
}

// No thread can be started, as if `ulimit -u` forbade it.
TEST(DataLoaderThreads, WithoutWorkersTheCallerAssemblesTheBatches) {
  testing_child::in_child({}, [] { expect_all_batches(0); });
}

TEST(DataLoaderThreads, SomeWorkersAreEnough) {
  testing_child::in_child({}, [] { expect_all_batches(2); });
}

}  // namespace
