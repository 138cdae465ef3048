// Chunks from the backend are cut into blocks of a multiple of 256 bytes. A request takes the
// smallest free block that holds it; a released block joins its free neighbours. Small and large
// requests use separate chunks, so that a long-lived scalar never pins a large chunk.
#include "backend/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/pool_faults.h"
#include "core/counting.h"
#include "core/text.h"
#include "platform/fork.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta {
namespace {

std::atomic<RefuseAllocation> refuse_allocation{nullptr};

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGranule = 256;
constexpr std::uint64_t kSmallLimit = kMiB;  // requests below come from small chunks
constexpr std::uint64_t kSmallChunk = 2 * kMiB;
constexpr std::uint64_t kLargeChunk = 16 * kMiB;  // the least for a large one
constexpr std::uint64_t kLargeGranule = 2 * kMiB;
// Reserved, over the most that was ever in use, before whole free chunks are given back.
constexpr double kSpare = 1.05;
// Who asks for idle memory gets a free block that no running work uses: among so many, and where
// none is, a new one, if it is a large one, as long as fewer than kBusyBlocks wait to become free.
// So a program that drops each batch, and a result as large, before it makes the next has some in
// turn.
constexpr int kMostLookedAt = 16;
constexpr int kBusyBlocks = 4;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

struct Chunk {
  Address memory;
  std::uint64_t bytes;
  std::uint64_t serial;  // orders chunks: the oldest with room is filled first
  bool small;
  std::size_t lane;
};

// A stretch of a chunk; its neighbours are those of lower and higher offset.
struct Block {
  std::shared_ptr<Chunk> chunk;  // ends with its last block
  std::uint64_t offset;
  std::uint64_t bytes;
  Block* previous = nullptr;
  Block* next = nullptr;
  bool free = true;
  LaneTimes used = {};  // of a free block: the latest of any part of it

  Address address() const { return {chunk->memory.base, chunk->memory.offset + offset}; }
  bool is_whole_chunk() const { return previous == nullptr && next == nullptr; }
};

struct BySize {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const {
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    if (a->chunk != b->chunk) return a->chunk->serial < b->chunk->serial;
    return a->offset < b->offset;
  }
  bool operator()(const Block* block, std::uint64_t bytes) const { return block->bytes < bytes; }
};
using FreeBlocks = std::set<Block*, BySize>;

struct AddressHash {
  std::size_t operator()(const Address& address) const {
    return std::hash<const void*>()(address.base) ^
           (address.offset / kGranule * 0x9E3779B97F4A7C15ull);
  }
};

}  // namespace

struct Pool::State {
  State(Backend& the_backend, int device_index, std::string name)
      : backend(the_backend), device(device_index), device_name(std::move(name)) {}

  Backend& backend;
  int device;
  std::string device_name;

  platform::ForkMutex mutex;  // guards all below
  MemoryStats stats;
  std::uint64_t next_serial = 0;
  struct OfLane {
    FreeBlocks free_small, free_large;
    std::uint64_t reserved = 0, in_use = 0;
    std::uint64_t most_in_use = 0;  // ever; the peak of the statistics can be reset
  };
  std::array<OfLane, kComputeLanes> lanes;
  std::unordered_map<Address, Block*, AddressHash> live;

  FreeBlocks& free_blocks(bool small, std::size_t lane) {
    return small ? lanes[lane].free_small : lanes[lane].free_large;
  }
  FreeBlocks& free_blocks(const Chunk& chunk) { return free_blocks(chunk.small, chunk.lane); }

  // The best free block of at least `bytes`, or null.
  Block* find(std::uint64_t bytes, bool small, std::size_t lane) {
    FreeBlocks& blocks = free_blocks(small, lane);
    const auto best = blocks.lower_bound(bytes);
    return best == blocks.end() ? nullptr : *best;
  }

  // A new chunk as one free block, or null when the limit or the device does not allow it.
  Block* add_chunk(std::uint64_t bytes, bool small, std::size_t lane) {
    if (stats.limit != 0 && (bytes > stats.limit || stats.reserved > stats.limit - bytes))
      return nullptr;
    auto chunk = std::make_shared<Chunk>(Chunk{{}, bytes, next_serial++, small, lane});
    auto block = std::make_unique<Block>(Block{chunk, 0, bytes});
    count(live_counters().allocations);
    chunk->memory = backend.allocate(device, bytes);
    if (chunk->memory == Address{}) return nullptr;
    stats.reserved += bytes;
    lanes[lane].reserved += bytes;
    free_blocks(*chunk).insert(block.get());
    return block.release();
  }

  // A free block of at least `bytes`, from the cache or the device. Throws OutOfMemory.
  Block* acquire(std::uint64_t bytes, std::size_t lane) {
    const bool small = bytes < kSmallLimit;
    const std::uint64_t preferred =
        small ? kSmallChunk : std::max(round_up(bytes, kLargeGranule), kLargeChunk);
    if (Block* block = find(bytes, small, lane)) return block;
    // What is cached and does not fit must not pile up: sizes that differ a little each time would
    // take the device's memory many times over.
    OfLane& own = lanes[lane];
    if (static_cast<double>(own.reserved + preferred) >
        kSpare * static_cast<double>(own.most_in_use + preferred))
      release_free_chunks(own);
    if (Block* block = add_chunk(preferred, small, lane)) return block;
    release_free_chunks();
    if (Block* block = add_chunk(preferred, small, lane)) return block;
    if (Block* block = add_chunk(bytes, small, lane))
      return block;  // exactly what is asked may still fit
    for (std::size_t other = 0; other < kComputeLanes; ++other) {
      if (Block* block = find(bytes, small, other)) return block;  // and wait for who used it
    }
    return nullptr;
  }

  // How much work has to end until nobody uses the block.
  static std::uint64_t pending(const Block& block, const ComputeTimes& finished) {
    std::uint64_t most = 0;
    for (std::size_t lane = 0; lane < kComputeLanes; ++lane) {
      const std::uint64_t used = block.used.compute[lane];
      if (used > finished[lane]) most = std::max(most, used - finished[lane]);
    }
    return most;
  }

  // The nearest free block that no work after `finished` uses. Where there is none: a new one as
  // long as few wait to become free, then the one that has to wait the least. Null: any will do.
  Block* find_idle(std::uint64_t bytes, const ComputeTimes& finished, std::size_t lane) {
    const bool small = bytes < kSmallLimit;
    const FreeBlocks& blocks = free_blocks(small, lane);
    Block* soonest = nullptr;
    std::uint64_t least = 0;
    int busy = 0;
    for (auto next = blocks.lower_bound(bytes); next != blocks.end() && busy < kMostLookedAt;
         ++next, ++busy) {
      Block* block = *next;
      const std::uint64_t work = pending(*block, finished);
      if (work == 0) return block;
      if (busy <= kBusyBlocks && (soonest == nullptr || work < least)) {
        soonest = block;
        least = work;
      }
    }
    // A little memory that is used for long would keep a whole chunk.
    if (small || busy == 0 || busy >= kBusyBlocks) return soonest;
    Block* added = add_chunk(round_up(bytes, kLargeGranule), small, lane);
    return added != nullptr ? added : soonest;
  }

  // Marks the block used and gives what it has beyond `bytes` back as a free block. Whatever may
  // throw comes before the first change.
  void take(Block* block, std::uint64_t bytes) {
    std::unique_ptr<Block> rest;
    if (block->bytes > bytes)
      rest.reset(new Block{block->chunk, block->offset + bytes, block->bytes - bytes, block,
                           block->next, true, block->used});
    live.emplace(block->address(), block);

    FreeBlocks& blocks = free_blocks(*block->chunk);
    auto node = blocks.extract(block);
    block->free = false;
    if (rest) {
      if (rest->next != nullptr) rest->next->previous = rest.get();
      block->next = rest.get();
      block->bytes = bytes;
      node.value() = rest.release();
      blocks.insert(std::move(node));
    }
    stats.in_use += bytes;
    stats.peak = std::max(stats.peak, stats.in_use);
    OfLane& own = lanes[block->chunk->lane];
    own.in_use += bytes;
    own.most_in_use = std::max(own.most_in_use, own.in_use);
  }

  // Joins `right` to the block before it and forgets it.
  static void absorb(Block* left, Block* right) {
    left->bytes += right->bytes;
    for (std::size_t lane = 0; lane < kComputeLanes; ++lane)
      left->used.compute[lane] = std::max(left->used.compute[lane], right->used.compute[lane]);
    left->used.upload = std::max(left->used.upload, right->used.upload);
    left->next = right->next;
    if (left->next != nullptr) left->next->previous = left;
    delete right;
  }

  void give_back(Block* block, LaneTimes used) {
    block->used = used;
    FreeBlocks& blocks = free_blocks(*block->chunk);
    stats.in_use -= block->bytes;
    lanes[block->chunk->lane].in_use -= block->bytes;
    block->free = true;
    if (block->next != nullptr && block->next->free) {
      blocks.erase(block->next);
      absorb(block, block->next);
    }
    if (block->previous != nullptr && block->previous->free) {
      Block* left = block->previous;
      blocks.erase(left);
      absorb(left, block);
      block = left;
    }
    blocks.insert(block);
  }

  void release_free_chunks() {
    for (OfLane& lane : lanes) release_free_chunks(lane);
  }
  void release_free_chunks(OfLane& lane) {
    for (FreeBlocks* blocks : {&lane.free_small, &lane.free_large}) {
      for (auto it = blocks->begin(); it != blocks->end();) {
        Block* block = *it;
        if (!block->is_whole_chunk()) {
          ++it;
          continue;
        }
        it = blocks->erase(it);
        stats.reserved -= block->chunk->bytes;
        lane.reserved -= block->chunk->bytes;
        try {
          backend.release(device, block->chunk->memory);
        } catch (const std::exception& error) {
          // Nobody has a use for the memory, and this may be a destructor: told, and forgotten.
          log(LogLevel::error,
              fmt::format("{}: memory could not be given back: {}", device_name, error.what()));
        }
        delete block;
      }
    }
  }

  [[noreturn]] void throw_out_of_memory(std::uint64_t requested) const {
    const std::string limit = stats.limit == 0 ? "no limit" : "limit " + size_text(stats.limit);
    throw OutOfMemory(fmt::format("{}: out of memory: {} requested, {} in use, {} reserved, {}",
                                  device_name, size_text(requested), size_text(stats.in_use),
                                  size_text(stats.reserved), limit));
  }
};

Pool::Pool(Backend& backend, int device, std::string device_name)
    : state_(std::make_unique<State>(backend, device, std::move(device_name))) {}

Pool::~Pool() {
  // Whatever is still held goes with the pool: its chunks must not outlive it.
  while (!state_->live.empty()) release(state_->live.begin()->first, {});
  state_->release_free_chunks();
}

Address Pool::allocate(std::size_t bytes, LaneTimes* used, std::size_t lane) {
  return allocate(bytes, nullptr, used, lane);
}

Address Pool::allocate_idle(std::size_t bytes, const ComputeTimes& finished, LaneTimes& used,
                            std::size_t lane) {
  return allocate(bytes, &finished, &used, lane);
}

Address Pool::allocate(std::size_t bytes, const ComputeTimes* finished, LaneTimes* used,
                       std::size_t lane) {
  const std::lock_guard lock(state_->mutex);
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) state_->throw_out_of_memory(bytes);
  if (const RefuseAllocation refuse = refuse_allocation.load(std::memory_order_relaxed);
      refuse != nullptr && refuse(bytes)) [[unlikely]] {
    state_->throw_out_of_memory(bytes);
  }
  const std::uint64_t rounded = round_up(bytes, kGranule);
  Block* block = finished != nullptr ? state_->find_idle(rounded, *finished, lane) : nullptr;
  if (block == nullptr) block = state_->acquire(rounded, lane);
  if (block == nullptr) state_->throw_out_of_memory(bytes);
  state_->take(block, rounded);
  if (used != nullptr) *used = block->used;
  return block->address();
}

void refuse_allocations(RefuseAllocation refuse) { refuse_allocation.store(refuse); }

void Pool::release(Address memory, LaneTimes used) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->live.find(memory);
  if (found == state_->live.end()) {
    // Called from destructors, which must not throw.
    log(LogLevel::error, state_->device_name + ": release of memory that its pool does not hold");
    return;
  }
  Block* block = found->second;
  state_->live.erase(found);
  state_->give_back(block, used);
}

MemoryStats Pool::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

void Pool::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->stats.peak = state_->stats.in_use;
}

void Pool::set_limit(std::uint64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  state_->stats.limit = bytes;
  if (bytes != 0 && state_->stats.reserved > bytes) state_->release_free_chunks();
}

void Pool::empty_cache() {
  const std::lock_guard lock(state_->mutex);
  state_->release_free_chunks();
}

}  // namespace volta
