// In which order the lanes of a device use memory. Compute work and uploads are numbered. Memory
// carries the numbers of what used it last (LaneTimes), also while the pool has it, and whoever
// uses it in another lane waits for that work and for no later one: the upload of the next batch
// runs while the step before it computes.
//
//   compute   waits for the uploads that its operands and its memory were given
//   upload    waits for the compute work that used the memory before
//   download  waits for what wrote the value; whoever holds the value keeps its memory until then
//
// A number is waited for by its point: those of the latest work are kept, and a later one serves
// where it is gone. While nothing is copied in lanes of its own, compute work gets no points.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "volta/export.h"

namespace volta {

class VOLTA_BACKEND_API Lanes {
 public:
  // Copies below go in the lane Compute, unless another thread has the device's lock: a few
  // microseconds of waiting for each other would be more than they take.
  static constexpr std::size_t kAsideBytes = std::size_t{64} << 10;
  // Points kept of each lane.
  static constexpr std::size_t kPoints = 32;
  // Compute work that gets points after the last copy in a lane of its own.
  static constexpr std::uint64_t kPointsAfterCopy = 64;

  // `lock` is the device's: taken for what goes in the lane Compute.
  Lanes(Backend& backend, int device, std::recursive_mutex& lock);

  std::uint64_t latest() const { return latest_.load(std::memory_order_acquire); }
  // Compute work up to this number is known to have ended.
  std::uint64_t finished();

  // Compute work: what `enqueue` enqueues. It uses memory that was given uploads up to number
  // `uploads`. Gives the work's number, which is counted also where `enqueue` throws.
  template <class Enqueue>
  std::uint64_t compute(std::uint64_t uploads, const Enqueue& enqueue) {
    const std::lock_guard guard(lock_);
    const Numbered work(*this, uploads);
    enqueue();
    return latest() + 1;
  }

  bool goes_aside(std::size_t bytes) const { return bytes >= kAsideBytes && has_lanes_; }
  // As the backend's. `times` are the memory's: waited for, and set.
  void upload(Address destination, LaneTimes& times, const void* source, std::size_t bytes);
  void download(void* destination, Address source, LaneTimes times, std::size_t bytes);
  void copy(Address destination, LaneTimes& destination_times, Address source,
            LaneTimes& source_times, std::size_t bytes);
  // Gives the point at which `destination`, see Backend::begin_download, is complete; null: it is.
  std::shared_ptr<const Point> begin_download(void* destination, Address source, LaneTimes times,
                                              std::size_t bytes);

  // Points after work of these numbers; null where it is known to have ended.
  std::shared_ptr<const Point> computed(std::uint64_t number);
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
    Numbered(Lanes& the_lanes, std::uint64_t uploads) : lanes(the_lanes) {
      lanes.begin_compute(uploads);
    }
    ~Numbered() { lanes.end_compute(); }
    Numbered(const Numbered&) = delete;
    Numbered& operator=(const Numbered&) = delete;
    Lanes& lanes;
  };

  void begin_compute(std::uint64_t uploads);
  void end_compute() noexcept;
  // Work enqueued in the lane from now on waits for what `times` says of the others.
  void wait_in(Lane lane, LaneTimes times);
  // The entry that serves for the number, marked now if need be; null where the work has ended.
  const Points::Entry* compute_entry(std::uint64_t number);
  const Points::Entry* upload_entry(std::uint64_t number);
  std::uint64_t mark_upload();
  template <class Copy>
  void or_drained(const Copy& copy);

  Backend& backend_;
  const int device_;
  std::recursive_mutex& lock_;
  const bool has_lanes_;
  std::atomic<std::uint64_t> latest_{0};

  std::mutex mutex_;  // guards all below; the device's lock comes before it
  std::uint64_t latest_upload_ = 0;
  std::uint64_t points_until_ = 0;  // compute work up to this number gets points
  Points computed_, uploaded_;
  std::array<LaneTimes, 3> waited_;  // by lane: numbers that it waits for already
};

}  // namespace volta
