// Measures with events when steps and copies ran on the device, while a profiler records.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "backend/cuda/context.h"
#include "core/profiling.h"

namespace volta::cuda {

class CudaExecutable;

// An event in a stream that measures time.
class TimelineEvent {
 public:
  TimelineEvent() = default;
  explicit TimelineEvent(const Context& context);
  ~TimelineEvent();
  TimelineEvent(TimelineEvent&& other) noexcept;
  TimelineEvent& operator=(TimelineEvent&& other) noexcept;

  void record(CUstream stream) const;
  // Records the event in a captured graph: every replay records the time again.
  void record_in_replays(CUstream stream) const;
  bool has_passed() const;
  void wait() const;
  // Both events must have passed.
  double nanoseconds_since(const TimelineEvent& earlier) const;

 private:
  const Context* context_ = nullptr;
  CUevent event_ = nullptr;
};

// All functions are thread-safe; the context must be current.
class Timeline {
 public:
  Timeline(const Context& context, int device);

  // The number of the profiler's current recording; 0 if there is none. At the start of a
  // recording, the device's clock is synchronized with the host's.
  std::uint64_t session();

  // Times the work that is enqueued between the two calls.
  TimelineEvent begin(CUstream stream);
  void end(TimelineEvent begin, profiling::Span span, CUstream stream);

  // Reports the steps of a replay whose events have passed; there is one event more than steps.
  void tell_sample(std::uint64_t session, std::uint32_t plan, std::uint32_t stream_number,
                   std::span<const TimelineEvent> events, std::span<const std::uint32_t> numbers);

  // Waits for everything timed and reports it.
  void flush();

  // Registers executables whose replays flush() has to report.
  void add(CudaExecutable* executable);
  void remove(CudaExecutable* executable);

 private:
  struct Pending {
    TimelineEvent begin, end;
    profiling::Span span;
    bool is_base = false;  // `end` becomes the base of later times
  };
  TimelineEvent take_event();
  profiling::Time time_of(const TimelineEvent& event) const;
  // Reports the work that has passed; with `wait`, waits for all of it.
  void drain(bool wait);

  const Context& context_;
  const int device_;
  std::mutex mutex_;  // guards everything below except the executables
  std::uint64_t session_ = 0;
  TimelineEvent base_;
  profiling::Time base_time_ = 0;
  profiling::Time based_at_ = 0;  // when the last base was recorded, by the host's clock
  std::deque<Pending> pending_;   // in the order of the device's work
  std::vector<TimelineEvent> spare_;
  std::mutex executables_mutex_;
  std::vector<CudaExecutable*> executables_;
};

}  // namespace volta::cuda
