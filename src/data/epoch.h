// One walk over a loader's examples: the order, the threads that assemble batches ahead, and where
// they wait for each other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch_builder.h"
#include "volta/data/loader.h"

namespace volta::data {

struct DataLoader::State {
  State(AnyDataset of, DataLoaderOptions with, std::uint64_t seeded);

  // Batches of an epoch.
  std::int64_t size() const;
  std::vector<std::int64_t> order(std::int64_t epoch) const;
  std::int64_t examples() const;  // of an epoch

  AnyDataset dataset;
  DataLoaderOptions options;
  std::uint64_t seed;
  std::int64_t epoch = 0;     // under way, or to come
  std::int64_t position = 0;  // batches of it handed out
  bool fresh = true;          // the next loop starts there; otherwise with the epoch after it
  std::weak_ptr<Epoch> active;
  LoaderStats stats;
};

class Epoch {
 public:
  explicit Epoch(std::shared_ptr<DataLoader::State> loader);
  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  // The next batch; nothing at the end of the epoch. Throws what assembling it threw; that batch is
  // then done with.
  std::optional<Batch> next();

 private:
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  Batch built(std::int64_t number) const;
  void work() noexcept;
  Batch awaited();
  void stop() noexcept;

  std::shared_ptr<DataLoader::State> loader_;
  BatchBuilder builder_;
  std::int64_t number_;  // of the epoch
  std::vector<std::int64_t> order_;
  std::int64_t count_;
  std::int64_t handed_;  // batches handed out; of the consumer, read by workers under the lock
  bool first_ = true;    // no batch has been asked for

  std::mutex lock_;
  std::condition_variable ready_, space_;
  std::vector<Slot> ring_;  // batch i is in i % size
  std::int64_t claimed_;    // batches that workers have taken on
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace volta::data
