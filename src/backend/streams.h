// The order in which the streams of a device use memory. Uploads are numbered, and so is the work
// of each compute stream. Memory carries the numbers of the work that used it last (StreamTimes),
// also while the pool holds it. A user in another stream waits for exactly that work and nothing
// later, so the next batch is uploaded while a step computes, and two models run side by side.
//
//   compute   waits for the uploads into its operands and its memory, for the work in other
//             streams that wrote its operands, and for the work there that used the memory
//             it writes
//   upload    waits for the compute work that used the memory before
//   download  waits for the work that wrote the value; the holder of the value keeps its memory
//             until then
//   read      waits like download; it is for downloads that a caller waits for
//
// To wait for a number means to wait for an event recorded after that work. Each stream keeps its
// latest events, and a later event serves when the exact one is gone. While only the first stream
// computes, its work gets events only if copy streams may wait for them, and its reads are not
// noted: memory that is given back counts as used by all work up to then.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "platform/fork.h"
#include "volta/export.h"

namespace volta {

class VOLTA_BACKEND_API Streams {
 public:
  // Smaller copies go into the first compute stream while it is the only one that computes, unless
  // another thread holds the device's lock: the synchronization between streams would cost a few
  // microseconds, more than the copy.
  static constexpr std::size_t kCopyStreamBytes = std::size_t{64} << 10;
  // Events kept for each stream.
  static constexpr std::size_t kEvents = 32;
  // The amount of compute work that still gets events after the last copy in a copy stream.
  static constexpr std::uint64_t kEventsAfterCopy = 64;
  // The amount of work in the first stream after which it counts as the only compute stream again.
  static constexpr std::uint64_t kWorkAlone = 256;

  // `lock` is the device's lock; it is taken for work in compute streams.
  Streams(Backend& backend, int device, std::recursive_mutex& lock);

  // The compute stream for a stream number that the program chose.
  std::size_t compute_stream_of(int chosen) const {
    return has_streams_ ? static_cast<std::size_t>(chosen) : 0;
  }
  // Whether a compute stream other than the first is in use, or was recently.
  bool several() const { return several_.load(std::memory_order_acquire); }

  std::uint64_t latest(std::size_t stream = 0) const {
    return latest_[stream].load(std::memory_order_acquire);
  }
  // The number, for each compute stream, up to which work is known to have ended.
  ComputeTimes finished();

  // Compute work about to be enqueued in a stream, and the work it waits for. Used under the
  // device's lock.
  class Run {
   public:
    Run(Streams& streams, std::size_t stream);
    // Declares memory that the work reads or writes.
    void reads(MemoryTimes& memory);
    void writes(MemoryTimes& memory);
    std::size_t stream() const { return stream_; }
    std::uint64_t number() const { return number_; }
    const StreamTimes& needs() const { return needs_; }

   private:
    Streams& streams_;
    const std::size_t stream_;
    const std::uint64_t number_;
    const bool several_;
    StreamTimes needs_;
  };
  // Enqueues the work by calling `enqueue`. The number is used up even if `enqueue` throws.
  template <class Enqueue>
  void compute(const Run& run, const Enqueue& enqueue) {
    const std::lock_guard guard(lock_);
    const Numbered work(*this, run);
    enqueue();
  }
  // Limits the work in flight when several streams compute: waits until the stream has fewer
  // unfinished runs than set_room allowed. To be called before taking the device's lock, so that
  // other threads need not wait too.
  void make_room(std::size_t stream);
  void set_room(std::size_t stream, std::uint32_t most) {
    room_[stream].store(most, std::memory_order_relaxed);
  }

  // The last uses of memory that goes back to the pool.
  StreamTimes last_use(const MemoryTimes& memory) const;

  bool uses_copy_stream(std::size_t bytes) const {
    return has_streams_ && (bytes >= kCopyStreamBytes || several());
  }
  // These copy like the backend's functions. They wait for the work in `times` and update it.
  void upload(Address destination, MemoryTimes& times, const void* source, std::size_t bytes);
  void download(void* destination, Address source, const MemoryTimes& times, std::size_t bytes);
  void copy(Address destination, MemoryTimes& destination_times, Address source,
            MemoryTimes& source_times, std::size_t bytes);
  // Returns the event at which `destination` (see Backend::begin_download) is complete; null if it
  // is complete already.
  std::shared_ptr<const StreamEvent> begin_download(void* destination, Address source,
                                                    const MemoryTimes& times, std::size_t bytes);

  // The event after this work; null if the work is known to have ended.
  std::shared_ptr<const StreamEvent> computed(StreamWork work);
  std::shared_ptr<const StreamEvent> uploaded(std::uint64_t number);

 private:
  // The events of a stream, ordered by the number of the work that each follows.
  struct Events {
    struct Entry {
      std::uint64_t number = 0;
      std::shared_ptr<const StreamEvent> event;
    };
    // The earliest event at or after the number; null if there is none.
    const Entry* find(std::uint64_t number) const;
    void add(std::uint64_t number, std::shared_ptr<const StreamEvent> event);
    std::uint64_t update_finished();

    std::deque<Entry> entries;
    std::uint64_t finished = 0;
  };
  struct Numbered {
    Numbered(Streams& the_streams, const Run& the_run)
        : streams(the_streams), stream(the_run.stream()) {
      streams.wait_in(compute_stream(stream), the_run.needs());
    }
    ~Numbered() { streams.end_compute(stream); }
    Numbered(const Numbered&) = delete;
    Numbered& operator=(const Numbered&) = delete;
    Streams& streams;
    const std::size_t stream;
  };

  void end_compute(std::size_t stream) noexcept;
  // Updates, before the stream computes, whether several streams do.
  void note_stream(std::size_t stream);
  // Makes work enqueued in the stream from now on wait for the work of other streams in `needs`.
  void wait_in(Stream stream, const StreamTimes& needs);
  // The entry whose event covers the work, recorded now if there is none; null if the work has
  // ended.
  const Events::Entry* compute_entry(StreamWork work);
  const Events::Entry* upload_entry(std::uint64_t number);
  std::uint64_t record_upload();
  template <class Copy>
  void or_drained(const Copy& copy);

  Backend& backend_;
  const int device_;
  std::recursive_mutex& lock_;
  const bool has_streams_;
  std::atomic<bool> several_{false};
  // Reads by the first stream's work up to this number were not noted in the memory's times.
  std::atomic<std::uint64_t> unnoted_until_{0};
  std::array<std::atomic<std::uint64_t>, kComputeStreams> latest_{};
  std::array<std::atomic<std::uint32_t>, kComputeStreams> room_{};
  // The first stream's latest number when another stream last computed; under the lock.
  std::uint64_t beside_ = 0;

  platform::ForkMutex mutex_;  // guards everything below; the device's lock is taken before it
  std::uint64_t latest_upload_ = 0;
  std::uint64_t events_until_ = 0;  // work of the first stream up to this number gets events
  std::array<Events, kComputeStreams> computed_;
  Events uploaded_;
  std::array<StreamTimes, kStreams> waited_;  // by stream: the numbers it already waits for
};

}  // namespace volta
