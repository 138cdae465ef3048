// One pass over a loader's examples: their order, and the threads that assemble batches ahead of
// the consumer.
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

  // The number of batches in an epoch.
  std::int64_t size() const;
  std::vector<std::int64_t> order(std::int64_t epoch) const;
  std::int64_t examples() const;  // number of examples in an epoch

  AnyDataset dataset;
  DataLoaderOptions options;
  std::uint64_t seed;
  std::int64_t epoch = 0;     // the current epoch, or the next one
  std::int64_t position = 0;  // number of batches of the epoch handed out
  bool fresh = true;  // the next loop starts at `position`; otherwise at the following epoch
  bool told_of_workers = false;  // the warning about too few workers has been logged
  std::weak_ptr<Epoch> active;
  LoaderStats stats;
};

class Epoch {
 public:
  explicit Epoch(std::shared_ptr<DataLoader::State> loader);
  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  // Returns the next batch, or nothing at the end of the epoch. If assembling the batch failed,
  // rethrows that exception; the following call continues with the batch after it.
  std::optional<Batch> next();

 private:
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  void start(int workers);
  Batch built(std::int64_t number) const;
  void work() noexcept;
  Batch awaited();
  void stop() noexcept;

  std::shared_ptr<DataLoader::State> loader_;
  BatchBuilder builder_;
  std::int64_t number_;  // number of the epoch
  std::vector<std::int64_t> order_;
  std::int64_t count_;
  std::int64_t handed_;  // batches handed out: written by the consumer, read by workers under lock_
  bool first_ = true;    // no batch has been requested yet

  std::mutex lock_;
  std::condition_variable ready_, space_;
  std::vector<Slot> ring_;  // batch i is in slot i % size
  std::int64_t claimed_;    // number of batches claimed by workers
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace volta::data
