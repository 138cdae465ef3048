// DataLoader: batches of a dataset, which its own threads assemble and send to the device while the
// program computes with earlier ones.
//   data::DataLoader train(data::digits(data::Split::train), {.batch_size = 64, .shuffle = true});
//   for (auto [x, y] : train) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "volta/data/dataset.h"
#include "volta/data/sampler.h"
#include "volta/data/transforms.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/io.h"

namespace volta::data {

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;  // drops a last batch that is smaller than the others
  // Threads that assemble batches; with 0 the calling thread does it. The batches and their order
  // do not depend on this number.
  int workers = 1;
  int prefetch = 2;  // batches that each worker prepares ahead
  Device device = Device::cpu();
  // Seed of shuffling and transforms. By default the calling thread's generator provides it when
  // the loader is made, so manual_seed() makes it reproducible, and two loaders differ.
  std::optional<std::uint64_t> seed = std::nullopt;
  std::shared_ptr<const Sampler> sampler = nullptr;  // replaces shuffle
  Transform transform = {};                          // applied to every batch on the host
  // Combines examples into a batch on the CPU; by default they are stacked.
  std::function<Batch(const std::vector<Example>&)> collate = {};
};

// Statistics of a loader since it was made or since reset_stats().
struct LoaderStats {
  std::int64_t batches = 0;
  std::int64_t bytes = 0;     // bytes of the batches handed out
  double first_seconds = 0;   // time waited for the first batches of epochs
  std::int64_t waits = 0;     // other batches that were not ready when requested
  double seconds_waited = 0;  // time waited for those batches
};

class Epoch;

// Copies refer to the same loader. Only one loop, by one thread, may run at a time.
class VOLTA_API DataLoader {
 public:
  explicit DataLoader(AnyDataset dataset, DataLoaderOptions options = {});

  // Iterates over one epoch, once.
  class VOLTA_API Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    // Waits for the next batch. If assembling it failed, rethrows that exception with its type:
    // Volta's own errors name the example in their message; other exceptions are unchanged and a
    // warning in the log names the example. The failed batch is skipped, for any number of workers:
    // the next ++ continues after it.
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.epoch_; }

   private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }
    std::shared_ptr<Epoch> epoch_;  // null at the end
    Batch batch_;
  };

  // Starts the next epoch or, after load_state_dict(), continues the saved one. Waits for the first
  // batch and throws as ++ does if it failed; the epoch is then over. Throws ArgumentError while
  // another loop over this loader is running.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  std::int64_t size() const;           // batches in an epoch
  std::int64_t dataset_size() const;   // examples in the dataset
  std::int64_t epoch() const;          // number of the current epoch, or of the next one
  std::int64_t position() const;       // batches of that epoch handed out or skipped so far
  std::int64_t next_position() const;  // where the next loop starts: 0 unless it resumes an epoch

  LoaderStats stats() const;
  void reset_stats();

  // Seed, epoch and position. A loader with the same dataset and options that loads them continues
  // the epoch, and all later ones, as this one would. May be called right after leaving a loop in
  // mid-epoch.
  StateDict state_dict() const;
  // Throws one ArgumentError listing all that does not fit (examples, batch_size, drop_last,
  // shuffle or the type of sampler, a seed in the options), and then changes nothing.
  void load_state_dict(const StateDict& state);

 private:
  friend class Epoch;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volta::data
