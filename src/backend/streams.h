// In which order the lanes of a device use memory. Compute work, numbered in each of its lanes, and
// uploads are numbered. Memory carries the numbers of what used it last (LaneTimes), also while the
// pool has it, and whoever uses it in another lane waits for that work and for no later one: the
// upload of the next batch runs while the step before it computes, and two models side by side.
//
//   compute   waits for the uploads that its operands and its memory were given, for what wrote its
//             operands in other lanes, and for what used the memory there that it writes
//   upload    waits for the compute work that used the memory before
//   download  waits for what wrote the value; whoever holds the value keeps its memory until then
//   (read)    the same, of downloads that somebody waits for
//
// A number is waited for by its point: those of the latest work are kept, and a later one serves
// where it is gone. While only the first lane computes, its work gets points only where copies in
// lanes of their own may wait for them, and what it reads is not noted: memory that is given back
// counts as used by all of its work.
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

class VOLTA_BACKEND_API Lanes {
 public:
  // Copies below go in the first lane that computes as long as it is the only one, unless another
  // thread has the device's lock: a few microseconds of waiting for each other would be more than
  // they take.
  static constexpr std::size_t kAsideBytes = std::size_t{64} << 10;
  // Points kept of each lane.
  static constexpr std::size_t kPoints = 32;
  // Compute work that gets points after the last copy in a lane of its own.
  static constexpr std::uint64_t kPointsAfterCopy = 64;
  // Work of the first lane after which it counts as the only one again.
  static constexpr std::uint64_t kWorkAlone = 256;

  // `lock` is the device's: taken for what goes in lanes that compute.
  Lanes(Backend& backend, int device, std::recursive_mutex& lock);

  // The lane for work of a stream that the program chose.
  std::size_t lane_of(int stream) const {
    return has_lanes_ ? static_cast<std::size_t>(stream) : 0;
  }
  // Whether another lane than the first computes, or did lately.
  bool several() const { return several_.load(std::memory_order_acquire); }

  std::uint64_t latest(std::size_t lane = 0) const {
    return latest_[lane].load(std::memory_order_acquire);
  }
  // Compute work up to these numbers is known to have ended.
  ComputeTimes finished();

  // Compute work to be enqueued in a lane, and what it waits for. Under the device's lock.
  class Run {
   public:
    Run(Lanes& lanes, std::size_t lane);
    // Memory that it reads, or writes, of whoever holds it.
    void reads(MemoryTimes& memory);
    void writes(MemoryTimes& memory);
    std::size_t lane() const { return lane_; }
    std::uint64_t number() const { return number_; }
    const LaneTimes& needs() const { return needs_; }

   private:
    Lanes& lanes_;
    const std::size_t lane_;
    const std::uint64_t number_;
    const bool several_;
    LaneTimes needs_;
  };
  // What `enqueue` enqueues. The number is counted also where that throws.
  template <class Enqueue>
  void compute(const Run& run, const Enqueue& enqueue) {
    const std::lock_guard guard(lock_);
    const Numbered work(*this, run);
    enqueue();
  }
  // Before the device's lock is taken for more work in the lane, where there are several: waits
  // until fewer than `most` of its works are under way, as was said after the latest of them. Under
  // the lock others would wait as well.
  void make_room(std::size_t lane);
  void set_room(std::size_t lane, std::uint32_t most) {
    room_[lane].store(most, std::memory_order_relaxed);
  }

  // When memory that goes back to the pool was used last.
  LaneTimes last_use(const MemoryTimes& memory) const;

  bool goes_aside(std::size_t bytes) const {
    return has_lanes_ && (bytes >= kAsideBytes || several());
  }
  // As the backend's. The times are the memory's: waited for, and set.
  void upload(Address destination, MemoryTimes& times, const void* source, std::size_t bytes);
  void download(void* destination, Address source, const MemoryTimes& times, std::size_t bytes);
  void copy(Address destination, MemoryTimes& destination_times, Address source,
            MemoryTimes& source_times, std::size_t bytes);
  // Gives the point at which `destination`, see Backend::begin_download, is complete; null: it is.
  std::shared_ptr<const Point> begin_download(void* destination, Address source,
                                              const MemoryTimes& times, std::size_t bytes);

  // Points after this work; null where it is known to have ended.
  std::shared_ptr<const Point> computed(Work work);
  std::shared_ptr<const Point> uploaded(std::uint64_t number);

 private:
  // The points of a lane, by the number of the work before each.
  struct Points {
    struct Entry {
      std::uint64_t number = 0;
      std::shared_ptr<const Point> point;
    };
    // The earliest at or after the number; null where there is none.
    const Entry* find(std::uint64_t number) const;
    void add(std::uint64_t number, std::shared_ptr<const Point> point);
    std::uint64_t update_finished();

    std::deque<Entry> entries;
    std::uint64_t finished = 0;
  };
  struct Numbered {
    Numbered(Lanes& the_lanes, const Run& the_run) : lanes(the_lanes), lane(the_run.lane()) {
      lanes.wait_in(compute_lane(lane), the_run.needs());
    }
    ~Numbered() { lanes.end_compute(lane); }
    Numbered(const Numbered&) = delete;
    Numbered& operator=(const Numbered&) = delete;
    Lanes& lanes;
    const std::size_t lane;
  };

  void end_compute(std::size_t lane) noexcept;
  // The lane is about to compute: how many do, from now on.
  void note_lane(std::size_t lane);
  // Work enqueued in the lane from now on waits for what `needs` says of the others.
  void wait_in(Lane lane, const LaneTimes& needs);
  // The entry that serves for the work, marked now if need be; null where it has ended.
  const Points::Entry* compute_entry(Work work);
  const Points::Entry* upload_entry(std::uint64_t number);
  std::uint64_t mark_upload();
  template <class Copy>
  void or_drained(const Copy& copy);

  Backend& backend_;
  const int device_;
  std::recursive_mutex& lock_;
  const bool has_lanes_;
  std::atomic<bool> several_{false};
  // Work of the first lane up to this number has read memory without notice.
  std::atomic<std::uint64_t> unnoted_until_{0};
  std::array<std::atomic<std::uint64_t>, kComputeLanes> latest_{};
  std::array<std::atomic<std::uint32_t>, kComputeLanes> room_{};
  std::uint64_t beside_ = 0;  // the first lane's latest when another computed; under the lock

  platform::ForkMutex mutex_;  // guards all below; the device's lock comes before it
  std::uint64_t latest_upload_ = 0;
  std::uint64_t points_until_ = 0;  // the first lane's work up to this number gets points
  std::array<Points, kComputeLanes> computed_;
  Points uploaded_;
  std::array<LaneTimes, kLanes> waited_;  // by lane: numbers that it waits for already
};

}  // namespace volta
