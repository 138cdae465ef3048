// Reference counts, and the memory of nodes and buffers.
#include "graph/record/node.h"

#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "backend/pool.h"
#include "backend/registry.h"
#include "core/profiling.h"
#include "core/slab.h"
#include "graph/record/autocast.h"
#include "graph/record/holders.h"
#include "graph/record/recorder.h"
#include "graph/record/recording_state.h"
#include "graph/record/replicas.h"
#include "graph/record/tape_extras.h"
#include "platform/thread_local.h"
#include "volta/error.h"

namespace volta::graph {
namespace {

// Notes whether the value of a pending node is wanted. The recorder is locked.
void note_live(Recorder& recorder, Node* node, bool live) {
  if (live == node->live) return;
  node->live = live;
  recorder.batch.live ^= live_word(node->index);
}

// Reports memory in use to the profiler.
void tell_memory(const DeviceEntry& entry) noexcept {
  if (profiling::session() == 0) return;
  const MemoryStats stats = entry.pool.stats();
  profiling::add_memory(entry.device, stats.in_use, stats.reserved);
}

// Empty if there is not enough memory for the table itself.
std::string table_of_holders(const DeviceEntry& entry) {
  try {
    return holders_table(entry);
  } catch (const std::bad_alloc&) {
    return "";
  }
}

// Allocates from the pool. If that fails, memory is freed step by step: buffers that plans keep,
// then inputs of unwanted operations, then replicas of values of other devices. If nothing helps,
// OutOfMemory lists the holders of the memory.
Address allocate(DeviceEntry& entry, std::size_t bytes, std::size_t stream,
                 const ComputeTimes* finished, StreamTimes& used) {
  const auto from_pool = [&](bool last) -> std::optional<Address> {
    try {
      if (finished != nullptr) return entry.pool.allocate_idle(bytes, *finished, used, stream);
      return entry.pool.allocate(bytes, &used, stream);
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
  give_up_replicas(entry);
  return *from_pool(true);
}

// If `finished` is given, memory whose last use has finished is preferred.
Buffer* new_buffer(DeviceEntry& entry, std::size_t bytes, std::size_t stream,
                   const ComputeTimes* finished) {
  StreamTimes used;
  const Address address = allocate(entry, bytes == 0 ? 1 : bytes, stream, finished, used);
  tell_memory(entry);
  Buffer* buffer = Slab<Buffer>::make();
  buffer->entry = &entry;
  buffer->bytes = bytes;
  buffer->address = address;
  buffer->times.set(used);
  if (bytes >= kListedBytes) list_buffer(buffer);
  return buffer;
}

constexpr std::align_val_t kHostAlignment{64};  // the pool's alignment

}  // namespace

HostCopy::HostCopy(std::size_t size)
    : memory(static_cast<std::byte*>(::operator new(size, kHostAlignment)),
             [](std::byte* bytes) { ::operator delete(bytes, kHostAlignment); }),
      bytes(memory.get(), size) {}

Buffer* allocate_buffer(DeviceEntry& entry, std::size_t bytes, std::size_t stream) {
  return new_buffer(entry, bytes, stream, nullptr);
}
Buffer* allocate_upload(DeviceEntry& entry, std::size_t bytes) {
  const std::size_t stream = entry.streams.compute_stream_of(recording_state.stream);
  if (!entry.streams.uses_copy_stream(bytes)) return allocate_buffer(entry, bytes, stream);
  const ComputeTimes finished = entry.streams.finished();
  return new_buffer(entry, bytes, stream, &finished);
}

void release(Buffer* buffer) noexcept {
  if (buffer->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (buffer->pool_owned) {
    if (buffer->bytes >= kListedBytes) unlist_buffer(buffer);
    buffer->entry->pool.release(buffer->address, buffer->entry->streams.last_use(buffer->times));
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
  if (node->replica.load(std::memory_order_acquire) != nullptr) [[unlikely]]
    drop_replica(node);
  Slab<Node>::destroy(node);
}

void became_wanted(Node* node) {
  Recorder* recorder = node->recorder.load(std::memory_order_acquire);
  if (recorder == nullptr) return;
  const std::lock_guard guard(recorder->lock);
  if (node->recorder.load(std::memory_order_relaxed) != recorder) return;
  note_live(*recorder, node, node->holders() > 0);
}

void drop_last_holder(Node* node) noexcept {
  if (Recorder* recorder = node->recorder.load(std::memory_order_acquire)) {
    const std::lock_guard guard(recorder->lock);
    // The batch has a reference to each of its nodes, so the node cannot be destroyed here.
    if (node->recorder.load(std::memory_order_relaxed) == recorder) {
      if (node->counts.load(std::memory_order_acquire) == kReference + kHolder) {
        // Only the batch and the caller have references and the batch is locked, so a plain store
        // is enough.
        node->counts.store(kReference, std::memory_order_release);
      } else {
        node->counts.fetch_sub(kHolder, std::memory_order_acq_rel);
      }
      return note_live(*recorder, node, node->holders() > 0);
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

// Chains of records are as long as programs and run through edges, saved tensors and hooks. They
// are freed with a list, since recursion could overflow the stack.
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
