// DataLoader: its options, its loops and its saved position.
#include "volta/data/loader.h"

#include <bit>
#include <string>
#include <typeinfo>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/epoch.h"
#include "volta/creation.h"
#include "volta/data/random.h"
#include "volta/detail/require_range.h"
#include "volta/error.h"

namespace volta::data {
namespace {

constexpr int kMaxWorkers = 256;
constexpr int kMaxPrefetch = 1024;

void check(const DataLoaderOptions& options) {
  const auto require = [](bool good, const char* what, std::int64_t got) {
    if (!good) throw ArgumentError(fmt::format("DataLoader: {}, got {}", what, got));
  };
  require(options.batch_size >= 1, "batch_size must be at least 1", options.batch_size);
  require(options.workers >= 0 && options.workers <= kMaxWorkers, "workers must be 0 to 256",
          options.workers);
  require(options.prefetch >= 1 && options.prefetch <= kMaxPrefetch, "prefetch must be 1 to 1024",
          options.prefetch);
  if (options.shuffle && options.sampler)
    throw ArgumentError("DataLoader: a sampler decides the order: shuffle must be false");
}

// The order of examples as a number in the saved state; each type of sampler has its own.
enum Order : std::int64_t { kInOrder = 0, kShuffled = 1 };

std::int64_t order_of(const DataLoaderOptions& options) {
  if (!options.sampler) return options.shuffle ? kShuffled : kInOrder;
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a, which is the same in every process
  const Sampler& sampler = *options.sampler;
  for (const char* c = typeid(sampler).name(); *c != 0; ++c)
    hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001B3u;
  return std::bit_cast<std::int64_t>(hash | std::uint64_t{1} << 63);
}

std::string order_text(std::int64_t order) {
  return order == kInOrder ? "the dataset's" : order == kShuffled ? "shuffled" : "a sampler's";
}

Tensor saved(std::int64_t number) {
  return scalar(number, {.dtype = DType::i64, .device = Device::cpu()});
}

// The numbers of a saved state. All problems are collected into one error.
class SavedNumbers {
 public:
  explicit SavedNumbers(const StateDict& state) : state_(state) {}

  std::int64_t take(const char* name) {
    const Tensor* found = state_.find(name);
    ++wanted_;
    if (found == nullptr) return complain(fmt::format("'{}' is missing", name));
    if (found->numel() != 1 || found->dtype() != DType::i64)
      return complain(fmt::format("'{}' is no i64 number", name));
    return found->item<std::int64_t>();
  }
  void require(bool good, const std::string& problem) {
    if (!good) complain(problem);
  }
  bool sound() const { return problems_.empty(); }
  void throw_problems() {
    if (state_.size() > wanted_ && problems_.empty()) complain("it has other entries");
    if (problems_.empty()) return;
    throw ArgumentError(
        fmt::format("DataLoader: cannot load the state: {}", fmt::join(problems_, "; ")));
  }

 private:
  std::int64_t complain(std::string problem) {
    problems_.push_back(std::move(problem));
    return 0;
  }

  const StateDict& state_;
  std::size_t wanted_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace

DataLoader::DataLoader(AnyDataset dataset, DataLoaderOptions options) {
  check(options);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // the order of an epoch is a list of them
  volta::detail::require_range("DataLoader", "the dataset's size", dataset->size(), 0, kMost);
  if (options.sampler)
    volta::detail::require_range("DataLoader", "the sampler's size", options.sampler->size(), 0,
                                 kMost);
  const std::uint64_t seed = options.seed ? *options.seed : Random::of_thread().next();
  state_ = std::make_shared<State>(std::move(dataset), std::move(options), seed);
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_ = {};
  if (std::optional<Batch> next = epoch_->next()) {
    batch_ = *std::move(next);
  } else {
    epoch_.reset();
  }
  return *this;
}

DataLoader::Iterator DataLoader::begin() {
  if (!state_->active.expired()) {
    throw ArgumentError(
        "DataLoader: a loop over this loader is under way; a second one needs a loader of its own");
  }
  if (!state_->fresh) {
    ++state_->epoch;
    state_->position = 0;
    state_->fresh = true;
  }
  auto epoch = std::make_shared<Epoch>(state_);
  state_->fresh = false;
  state_->active = epoch;
  return Iterator(std::move(epoch));
}

std::int64_t DataLoader::size() const { return state_->size(); }
std::int64_t DataLoader::dataset_size() const { return state_->dataset->size(); }
std::int64_t DataLoader::epoch() const { return state_->epoch; }
std::int64_t DataLoader::position() const { return state_->position; }
std::int64_t DataLoader::next_position() const { return state_->fresh ? state_->position : 0; }
LoaderStats DataLoader::stats() const { return state_->stats; }
void DataLoader::reset_stats() { state_->stats = {}; }

StateDict DataLoader::state_dict() const {
  StateDict state;
  const bool whole = state_->position == state_->size();
  state.add("seed", saved(std::bit_cast<std::int64_t>(state_->seed)));
  state.add("epoch", saved(state_->epoch + (whole ? 1 : 0)));
  state.add("position", saved(whole ? 0 : state_->position));
  state.add("examples", saved(state_->dataset->size()));
  state.add("epoch_examples", saved(state_->examples()));
  state.add("batch_size", saved(state_->options.batch_size));
  state.add("drop_last", saved(state_->options.drop_last));
  state.add("order", saved(order_of(state_->options)));
  return state;
}

void DataLoader::load_state_dict(const StateDict& state) {
  if (!state_->active.expired())
    throw ArgumentError("DataLoader: cannot load a state: a loop over this loader is under way");
  SavedNumbers numbers(state);
  const auto seed = std::bit_cast<std::uint64_t>(numbers.take("seed"));
  const std::int64_t epoch = numbers.take("epoch"), position = numbers.take("position"),
                     examples = numbers.take("examples"),
                     epoch_examples = numbers.take("epoch_examples"),
                     batch_size = numbers.take("batch_size"), drop_last = numbers.take("drop_last"),
                     order = numbers.take("order");
  if (numbers.sound()) {
    const DataLoaderOptions& options = state_->options;
    numbers.require(examples == state_->dataset->size(),
                    fmt::format("it is of {} examples, not {}", examples, state_->dataset->size()));
    const std::int64_t own_order = order_of(options);
    if (order < 0 && own_order < 0) {
      numbers.require(order == own_order, "its sampler is of another type");
    } else {
      numbers.require(order == own_order, fmt::format("its order is {}, not {}", order_text(order),
                                                      order_text(own_order)));
    }
    // Without samplers the checks above cover this.
    numbers.require(
        (order >= 0 && own_order >= 0) || epoch_examples == state_->examples(),
        fmt::format("an epoch of it has {} examples, not {}", epoch_examples, state_->examples()));
    numbers.require(batch_size == options.batch_size,
                    fmt::format("it is of batches of {}, not {}", batch_size, options.batch_size));
    numbers.require(drop_last == std::int64_t{options.drop_last},
                    fmt::format("its drop_last is {}, not {}", drop_last != 0, options.drop_last));
    numbers.require(!options.seed || *options.seed == seed,
                    fmt::format("its seed is {}, not {}", seed, options.seed.value_or(0)));
  }
  if (numbers.sound()) {  // otherwise this problem would follow from the others
    numbers.require(epoch >= 0 && position >= 0 && position <= state_->size(),
                    fmt::format("it stands at batch {} of epoch {}", position, epoch));
  }
  numbers.throw_problems();
  state_->seed = seed;
  state_->epoch = epoch;
  state_->position = position;
  state_->fresh = true;
}

}  // namespace volta::data
