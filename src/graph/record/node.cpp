// Reference counts, node and buffer memory.
#include "graph/node.h"

#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "backend/pool.h"
#include "core/profiling.h"
#include "core/registry.h"
#include "core/slab.h"
#include "graph/autocast.h"
#include "graph/holders.h"
#include "graph/mirrors.h"
#include "graph/recording_state.h"
#include "graph/segment.h"
#include "graph/tape_extras.h"
#include "platform/thread_local.h"
#include "volta/error.h"

namespace volta::graph {
namespace {

// Notes in the segment, which is locked, whether a pending node's value is wanted.
void note_live(Segment& segment, Node* node, bool live) {
  if (live == node->live) return;
  node->live = live;
  segment.batch.live ^= live_word(node->index);
}

// For the profiler's curve of memory in use.
void tell_memory(const DeviceEntry& entry) noexcept {
  if (profiling::session() == 0) return;
  const MemoryStats stats = entry.pool.stats();
  profiling::add_memory(entry.device, stats.in_use, stats.reserved);
}

// Without, where there is no memory for the table either.
std::string table_of_holders(const DeviceEntry& entry) {
  try {
    return holders_table(entry);
  } catch (const std::bad_alloc&) {
    return "";
  }
}

// Memory of the pool; where there is none, after what plans keep was given back, then what only
// operations read that nobody wants, and then copies of other devices' values. In the end
// OutOfMemory tells who holds it.
Address allocate(DeviceEntry& entry, std::size_t bytes, std::size_t lane,
                 const ComputeTimes* finished, LaneTimes& used) {
  const auto from_pool = [&](bool last) -> std::optional<Address> {
    try {
      if (finished != nullptr) return entry.pool.allocate_idle(bytes, *finished, used, lane);
      return entry.pool.allocate(bytes, &used, lane);
    } catch (const OutOfMemory& error) {
      if (last) throw OutOfMemory(error.what() + table_of_holders(entry));
      return std::nullopt;
    }
  };
  if (const auto address = from_pool(false)) return *address;
  if (entry.trim != nullptr) {
    entry.trim(entry);
    if (const auto address = from_pool(false)) return *address;
  }
  drop_unwanted_work(entry);
  if (const auto address = from_pool(false)) return *address;
  give_up_mirrors(entry);
  return *from_pool(true);
}

// `finished`: memory that no later work uses is preferred.
Buffer* new_buffer(DeviceEntry& entry, std::size_t bytes, std::size_t lane,
                   const ComputeTimes* finished) {
  LaneTimes used;
  const Address address = allocate(entry, bytes == 0 ? 1 : bytes, lane, finished, used);
  tell_memory(entry);
  Buffer* buffer = Slab<Buffer>::make();
  buffer->entry = &entry;
  buffer->bytes = bytes;
  buffer->address = address;
  buffer->times.set(used);
  if (bytes >= kListedBytes) list_buffer(buffer);
  return buffer;
}

constexpr std::align_val_t kHostAlignment{64};  // as the pool's

}  // namespace

HostCopy::HostCopy(std::size_t size)
    : memory(static_cast<std::byte*>(::operator new(size, kHostAlignment)),
             [](std::byte* bytes) { ::operator delete(bytes, kHostAlignment); }),
      bytes(memory.get(), size) {}

Buffer* allocate_buffer(DeviceEntry& entry, std::size_t bytes, std::size_t lane) {
  return new_buffer(entry, bytes, lane, nullptr);
}
Buffer* allocate_upload(DeviceEntry& entry, std::size_t bytes) {
  const std::size_t lane = entry.lanes.lane_of(recording_state.stream);
  if (!entry.lanes.goes_aside(bytes)) return allocate_buffer(entry, bytes, lane);
  const ComputeTimes finished = entry.lanes.finished();
  return new_buffer(entry, bytes, lane, &finished);
}

void release(Buffer* buffer) noexcept {
  if (buffer->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (buffer->pool_owned) {
    if (buffer->bytes >= kListedBytes) unlist_buffer(buffer);
    buffer->entry->pool.release(buffer->address, buffer->entry->lanes.last_use(buffer->times));
    tell_memory(*buffer->entry);
  } else if (buffer->deleter) {
    buffer->deleter();
  }
  Slab<Buffer>::destroy(buffer);
}

void destroy(Variable* variable) noexcept {
  if (variable->requires_grad && recording_state.casts != nullptr) [[unlikely]]
    forget_cast(*variable);
  if (Tape* tape = variable->tape.get(); tape != nullptr && tape->extras) [[unlikely]] {
    if (tape->extras->retains == variable) tape->extras->retains = nullptr;
  }
  Slab<Variable>::destroy(variable);
}

void destroy(Node* node) noexcept {
  if (node->buffer) release(node->buffer);
  if (node->mirror.load(std::memory_order_acquire) != nullptr) [[unlikely]]
    drop_mirror(node);
  Slab<Node>::destroy(node);
}

void became_wanted(Node* node) {
  Segment* segment = node->segment.load(std::memory_order_acquire);
  if (segment == nullptr) return;
  const std::lock_guard guard(segment->lock);
  if (node->segment.load(std::memory_order_relaxed) != segment) return;
  note_live(*segment, node, node->holders() > 0);
}

void drop_last_holder(Node* node) noexcept {
  if (Segment* segment = node->segment.load(std::memory_order_acquire)) {
    const std::lock_guard guard(segment->lock);
    // While it is in the batch, the batch refers to it: it cannot go here.
    if (node->segment.load(std::memory_order_relaxed) == segment) {
      if (node->counts.load(std::memory_order_acquire) == kReference + kHolder) {
        // The batch's and the caller's, and the batch is locked: no exchange is needed.
        node->counts.store(kReference, std::memory_order_release);
      } else {
        node->counts.fetch_sub(kHolder, std::memory_order_acq_rel);
      }
      return note_live(*segment, node, node->holders() > 0);
    }
  }
  if (node->counts.fetch_sub(kHolder, std::memory_order_acq_rel) == kHolder) destroy(node);
}

namespace {
bool was_last(Tape& tape) {
  return tape.refs.load(std::memory_order_acquire) == 1 ||
         tape.refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
}
}  // namespace

// Chains of records are as long as programs, and lead through edges, saved tensors and what hooks
// hold: freed by a list, not by recursion.
void release(Tape* tape) noexcept {
  VOLTA_INITIAL_EXEC static constinit thread_local Tape* dead =
      nullptr;  // linked through `next_dead`
  VOLTA_INITIAL_EXEC static constinit thread_local bool frees = false;
  if (!was_last(*tape)) return;
  tape->next_dead = dead;
  dead = tape;
  if (frees) return;
  frees = true;
  while (dead != nullptr) Slab<Tape>::destroy(std::exchange(dead, dead->next_dead));
  frees = false;
}

void set_tape(Variable& variable, TapeRef tape) {
  const TapeRef before = std::exchange(variable.tape, std::move(tape));
  if (!before || !before->extras || before->extras->retains != &variable) return;
  before->extras->retains = nullptr;
  if (variable.tape) extras_of(*variable.tape.get()).retains = &variable;
}

}  // namespace volta::graph
