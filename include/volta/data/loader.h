// DataLoader: batches of a dataset, assembled and sent to the device by threads of its own while
// the program computes with earlier ones.
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
  bool drop_last = false;  // leaves out a last batch that is smaller than the others
  // Threads that assemble batches; 0: the thread that asks for them does. The batches and their
  // order are the same for any number.
  int workers = 1;
  int prefetch = 2;  // batches that each worker has ready or under way
  Device device = Device::cpu();
  // Of shuffling and transforms. None: drawn from the calling thread's generator when the loader is
  // made, so that manual_seed() decides it and two loaders differ.
  std::optional<std::uint64_t> seed = std::nullopt;
  std::shared_ptr<const Sampler> sampler = nullptr;  // instead of shuffle
  Transform transform = {};                          // of every batch, on the host
  // How examples become a batch, on the CPU; by default they are stacked.
  std::function<Batch(const std::vector<Example>&)> collate = {};
};

// What a loader did since it was made, or since reset_stats().
struct LoaderStats {
  std::int64_t batches = 0;
  std::int64_t bytes = 0;     // of the batches handed out
  double first_seconds = 0;   // waited for the first batch of each epoch
  std::int64_t waits = 0;     // batches, other than those, that were not ready when asked for
  double seconds_waited = 0;  // for them
};

class Epoch;

// A copy is the same loader. One loop at a time, by one thread at a time.
class VOLTA_API DataLoader {
 public:
  explicit DataLoader(AnyDataset dataset, DataLoaderOptions options = {});

  // Walks one epoch, once.
  class VOLTA_API Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    // Waits for the next batch. Throws what assembling it threw, with the type it was thrown with:
    // Volta's own errors name the example in their message; an exception of any other type arrives
    // as it was, and a warning in the log names the example. That batch is skipped, for any number
    // of workers: the next ++ goes on behind it.
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.epoch_; }

   private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }
    std::shared_ptr<Epoch> epoch_;  // null at the end
    Batch batch_;
  };

  // Starts the next epoch; after load_state_dict() the saved one where it stood. Waits for its
  // first batch and throws what assembling that threw, as ++ does; the epoch is then over. Throws
  // ArgumentError while another loop over this loader is under way.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  std::int64_t size() const;           // batches in an epoch
  std::int64_t dataset_size() const;   // examples in the dataset
  std::int64_t epoch() const;          // epochs before the present one, or the next
  std::int64_t position() const;       // batches of that epoch handed out or skipped so far
  std::int64_t next_position() const;  // where the next loop starts: 0 unless it resumes an epoch

  LoaderStats stats() const;
  void reset_stats();

  // Seed, epoch and position: a loader of the same dataset and options that loads them hands out
  // the rest of the epoch, and all later ones, as this one would. Also right after a loop was left
  // in mid-epoch.
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
