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
constexpr std::uint64_t kSmallLimit = kMiB;  // smaller requests use small chunks
constexpr std::uint64_t kSmallChunk = 2 * kMiB;
constexpr std::uint64_t kLargeChunk = 16 * kMiB;  // the least size of a large chunk
constexpr std::uint64_t kLargeGranule = 2 * kMiB;
// Whole free chunks are given back when reserved memory exceeds this multiple of the most ever in
// use.
constexpr double kSpare = 1.05;
// allocate_idle looks at this many free blocks for one that no running work uses. If there is none,
// it allocates a new large block, as long as fewer than kBusyBlocks are waiting to become idle. A
// program that drops each batch, and a result of the same size, before it makes the next thus
// cycles through a few blocks.
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
  std::size_t stream;
};

// A range of a chunk; `previous` and `next` are its neighbours by offset.
struct Block {
  std::shared_ptr<Chunk> chunk;  // the chunk ends with its last block
  std::uint64_t offset;
  std::uint64_t bytes;
  Block* previous = nullptr;
  Block* next = nullptr;
  bool free = true;
  StreamTimes used = {};  // for a free block, the latest use of any part of it

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

  platform::ForkMutex mutex;  // guards everything below
  MemoryStats stats;
  std::uint64_t next_serial = 0;
  struct PerStream {
    FreeBlocks free_small, free_large;
    std::uint64_t reserved = 0, in_use = 0;
    std::uint64_t most_in_use = 0;  // never reset, unlike the peak in the statistics
  };
  std::array<PerStream, kComputeStreams> streams;
  std::unordered_map<Address, Block*, AddressHash> live;

  FreeBlocks& free_blocks(bool small, std::size_t stream) {
    return small ? streams[stream].free_small : streams[stream].free_large;
  }
  FreeBlocks& free_blocks(const Chunk& chunk) { return free_blocks(chunk.small, chunk.stream); }

  // The best free block of at least `bytes`, or null.
  Block* find(std::uint64_t bytes, bool small, std::size_t stream) {
    FreeBlocks& blocks = free_blocks(small, stream);
    const auto best = blocks.lower_bound(bytes);
    return best == blocks.end() ? nullptr : *best;
  }

  // Allocates a chunk as one free block; null if the limit or the device does not allow it.
  Block* add_chunk(std::uint64_t bytes, bool small, std::size_t stream) {
    if (stats.limit != 0 && (bytes > stats.limit || stats.reserved > stats.limit - bytes))
      return nullptr;
    auto chunk = std::make_shared<Chunk>(Chunk{{}, bytes, next_serial++, small, stream});
    auto block = std::make_unique<Block>(Block{chunk, 0, bytes});
    count(live_counters().allocations);
    chunk->memory = backend.allocate(device, bytes);
    if (chunk->memory == Address{}) return nullptr;
    stats.reserved += bytes;
    streams[stream].reserved += bytes;
    free_blocks(*chunk).insert(block.get());
    return block.release();
  }

  // A free block of at least `bytes`, from the cache or from a new chunk; null if memory has run
  // out.
  Block* acquire(std::uint64_t bytes, std::size_t stream) {
    const bool small = bytes < kSmallLimit;
    const std::uint64_t preferred =
        small ? kSmallChunk : std::max(round_up(bytes, kLargeGranule), kLargeChunk);
    if (Block* block = find(bytes, small, stream)) return block;
    // Cached chunks that do not fit must not pile up: requests whose sizes vary a little would
    // reserve the device's memory many times over.
    PerStream& own = streams[stream];
    if (static_cast<double>(own.reserved + preferred) >
        kSpare * static_cast<double>(own.most_in_use + preferred))
      release_free_chunks(own);
    if (Block* block = add_chunk(preferred, small, stream)) return block;
    release_free_chunks();
    if (Block* block = add_chunk(preferred, small, stream)) return block;
    if (Block* block = add_chunk(bytes, small, stream))
      return block;  // a chunk of exactly the requested size may still fit
    for (std::size_t other = 0; other < kComputeStreams; ++other) {
      if (Block* block = find(bytes, small, other)) return block;  // the owner waits for its users
    }
    return nullptr;
  }

  // The amount of work that has to end before the block is idle.
  static std::uint64_t pending(const Block& block, const ComputeTimes& finished) {
    std::uint64_t most = 0;
    for (std::size_t stream = 0; stream < kComputeStreams; ++stream) {
      const std::uint64_t used = block.used.compute[stream];
      if (used > finished[stream]) most = std::max(most, used - finished[stream]);
    }
    return most;
  }

  // The best-fitting free block that no work after `finished` uses. If there is none: a new block
  // if only few are busy, otherwise the block that becomes idle soonest. Null if no free block
  // fits.
  Block* find_idle(std::uint64_t bytes, const ComputeTimes& finished, std::size_t stream) {
    const bool small = bytes < kSmallLimit;
    const FreeBlocks& blocks = free_blocks(small, stream);
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
    // No chunk is added for a small request: a small, long-lived value would keep the whole chunk.
    if (small || busy == 0 || busy >= kBusyBlocks) return soonest;
    Block* added = add_chunk(round_up(bytes, kLargeGranule), small, stream);
    return added != nullptr ? added : soonest;
  }

  // Marks the block used and returns its part beyond `bytes` to the free blocks. Everything that
  // may throw comes before the first change.
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
    PerStream& own = streams[block->chunk->stream];
    own.in_use += bytes;
    own.most_in_use = std::max(own.most_in_use, own.in_use);
  }

  // Merges `right` into the block before it.
  static void absorb(Block* left, Block* right) {
    left->bytes += right->bytes;
    for (std::size_t stream = 0; stream < kComputeStreams; ++stream)
      left->used.compute[stream] =
          std::max(left->used.compute[stream], right->used.compute[stream]);
    left->used.upload = std::max(left->used.upload, right->used.upload);
    left->next = right->next;
    if (left->next != nullptr) left->next->previous = left;
    delete right;
  }

  void give_back(Block* block, StreamTimes used) {
    block->used = used;
    FreeBlocks& blocks = free_blocks(*block->chunk);
    stats.in_use -= block->bytes;
    streams[block->chunk->stream].in_use -= block->bytes;
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
    for (PerStream& stream : streams) release_free_chunks(stream);
  }
  void release_free_chunks(PerStream& stream) {
    for (FreeBlocks* blocks : {&stream.free_small, &stream.free_large}) {
      for (auto it = blocks->begin(); it != blocks->end();) {
        Block* block = *it;
        if (!block->is_whole_chunk()) {
          ++it;
          continue;
        }
        it = blocks->erase(it);
        stats.reserved -= block->chunk->bytes;
        stream.reserved -= block->chunk->bytes;
        try {
          backend.release(device, block->chunk->memory);
        } catch (const std::exception& error) {
          // The memory is not needed any more, and this may run in a destructor: the error is only
          // logged.
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
  // Blocks that are still held are released too: chunks must not outlive the pool.
  while (!state_->live.empty()) release(state_->live.begin()->first, {});
  state_->release_free_chunks();
}

Address Pool::allocate(std::size_t bytes, StreamTimes* used, std::size_t stream) {
  return allocate(bytes, nullptr, used, stream);
}

Address Pool::allocate_idle(std::size_t bytes, const ComputeTimes& finished, StreamTimes& used,
                            std::size_t stream) {
  return allocate(bytes, &finished, &used, stream);
}

Address Pool::allocate(std::size_t bytes, const ComputeTimes* finished, StreamTimes* used,
                       std::size_t stream) {
  const std::lock_guard lock(state_->mutex);
  if (bytes > std::numeric_limits<std::uint64_t>::max() / 2) state_->throw_out_of_memory(bytes);
  if (const RefuseAllocation refuse = refuse_allocation.load(std::memory_order_relaxed);
      refuse != nullptr && refuse(bytes)) [[unlikely]] {
    state_->throw_out_of_memory(bytes);
  }
  const std::uint64_t rounded = round_up(bytes, kGranule);
  Block* block = finished != nullptr ? state_->find_idle(rounded, *finished, stream) : nullptr;
  if (block == nullptr) block = state_->acquire(rounded, stream);
  if (block == nullptr) state_->throw_out_of_memory(bytes);
  state_->take(block, rounded);
  if (used != nullptr) *used = block->used;
  return block->address();
}

void refuse_allocations(RefuseAllocation refuse) { refuse_allocation.store(refuse); }

void Pool::release(Address memory, StreamTimes used) {
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
