// Worker threads of a loader. Workers claim batches in order and put them into a ring, and the
// consumer takes them in order, so the number and speed of workers change only the time.
#include "data/epoch.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "volta/data/random.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::data {

DataLoader::State::State(AnyDataset of, DataLoaderOptions with, std::uint64_t seeded)
    : dataset(std::move(of)), options(std::move(with)), seed(seeded) {}

std::int64_t DataLoader::State::size() const {
  const std::int64_t whole = examples() / options.batch_size;
  return options.drop_last ? whole : whole + (examples() % options.batch_size != 0);
}

std::int64_t DataLoader::State::examples() const {
  return options.sampler ? options.sampler->size() : dataset->size();
}

std::vector<std::int64_t> DataLoader::State::order(std::int64_t of_epoch) const {
  const std::int64_t count = dataset->size();
  if (options.sampler) {
    std::vector<std::int64_t> chosen = options.sampler->order(seed, of_epoch);
    if (static_cast<std::int64_t>(chosen.size()) != options.sampler->size()) {
      throw ArgumentError(fmt::format("DataLoader: the sampler gave {} indices, its size is {}",
                                      chosen.size(), options.sampler->size()));
    }
    for (const std::int64_t index : chosen) {
      if (index < 0 || index >= count) {
        throw ArgumentError(
            fmt::format("DataLoader: the sampler gave index {} of {} examples", index, count));
      }
    }
    return chosen;
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  if (options.shuffle) {
    Random random(seed, static_cast<std::uint64_t>(of_epoch));
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
  }
  return all;
}

Epoch::Epoch(std::shared_ptr<DataLoader::State> loader)
    : loader_(std::move(loader)),
      builder_(loader_->dataset, loader_->options, loader_->seed),
      number_(loader_->epoch),
      order_(loader_->order(number_)),
      count_(loader_->size()),
      handed_(loader_->position),
      claimed_(handed_) {
  const int workers = loader_->options.workers;
  if (workers == 0) return;
  ring_.resize(static_cast<std::size_t>(workers) *
               static_cast<std::size_t>(loader_->options.prefetch));
  try {
    start(workers);
  } catch (...) {
    stop();
    throw;
  }
}

// The system may allow fewer threads than `workers`. Without any, the caller assembles the batches.
void Epoch::start(int workers) {
  workers_.reserve(static_cast<std::size_t>(workers));
  try {
    while (std::ssize(workers_) < workers) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    if (workers_.empty()) ring_.clear();
    if (!std::exchange(loader_->told_of_workers, true))
      log(LogLevel::warning, fmt::format("DataLoader: {} of {} workers could be started: {}",
                                         workers_.size(), workers, error.what()));
  }
}

Epoch::~Epoch() { stop(); }

void Epoch::stop() noexcept {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  space_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

Batch Epoch::built(std::int64_t number) const {
  const auto examples = static_cast<std::int64_t>(order_.size());
  const std::int64_t begin = number * loader_->options.batch_size,
                     end = std::min(begin + loader_->options.batch_size, examples);
  return builder_.build(
      {number_, begin, {order_.data() + begin, static_cast<std::size_t>(end - begin)}});
}

void Epoch::work() noexcept {
  const auto depth = static_cast<std::int64_t>(ring_.size());
  for (;;) {
    std::int64_t number;
    {
      std::unique_lock guard(lock_);
      space_.wait(guard,
                  [&] { return stopping_ || claimed_ == count_ || claimed_ < handed_ + depth; });
      if (stopping_ || claimed_ == count_) return;
      number = claimed_++;
    }
    Slot made;
    try {
      made.batch = built(number);
    } catch (...) {
      made.error = std::current_exception();
    }
    made.ready = true;
    {
      const std::lock_guard guard(lock_);
      ring_[static_cast<std::size_t>(number % depth)] = std::move(made);
    }
    ready_.notify_one();
  }
}

// Waits for the next batch from the workers and adds the waiting time to the statistics.
Batch Epoch::awaited() {
  LoaderStats& stats = loader_->stats;
  Slot taken;
  {
    std::unique_lock guard(lock_);
    Slot& slot = ring_[static_cast<std::size_t>(handed_) % ring_.size()];
    if (!slot.ready) {
      const auto start = std::chrono::steady_clock::now();
      ready_.wait(guard, [&] { return slot.ready; });
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      (first_ ? stats.first_seconds : stats.seconds_waited) += waited.count();
      if (!first_) ++stats.waits;
    }
    taken = std::exchange(slot, Slot());
    ++handed_;
  }
  first_ = false;
  space_.notify_one();
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(taken.batch);
}

std::optional<Batch> Epoch::next() {
  if (handed_ == count_) {
    ++loader_->epoch;
    loader_->position = 0;
    loader_->fresh = true;
    return std::nullopt;
  }
  loader_->position = handed_ + 1;  // a batch that fails counts too
  Batch batch;
  try {
    batch = ring_.empty() ? built(handed_++) : awaited();
  } catch (const ForeignError& foreign) {
    log(LogLevel::warning, foreign.told);
    std::rethrow_exception(foreign.error);
  }
  ++loader_->stats.batches;
  for (const Tensor* field : {&batch.x, &batch.y}) {
    if (!field->defined()) continue;
    loader_->stats.bytes += field->numel() * static_cast<std::int64_t>(size_of(field->dtype()));
  }
  return batch;
}

}  // namespace volta::data
