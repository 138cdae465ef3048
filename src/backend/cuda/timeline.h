// When steps and copies ran on the device, by events: for the profiler, while one records.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "backend/cuda/context.h"
#include "core/profiling.h"

namespace volta::cuda {

class CudaExecutable;

// A point in a stream's work whose time is taken.
class Mark {
 public:
  Mark() = default;
  explicit Mark(const Context& context);
  ~Mark();
  Mark(Mark&& other) noexcept;
  Mark& operator=(Mark&& other) noexcept;

  void record(CUstream stream) const;
  // In a capture: every replay takes the time anew.
  void record_in_replays(CUstream stream) const;
  bool has_passed() const;
  void wait() const;
  // Of two that have passed.
  double nanoseconds_since(const Mark& earlier) const;

 private:
  const Context* context_ = nullptr;
  CUevent event_ = nullptr;
};

// The calls below may come from any thread; the context is current.
class Timeline {
 public:
  Timeline(const Context& context, int device);

  // The number of the recording under way; 0: nobody wants times. In a new one the device's clock
  // is set against the host's.
  std::uint64_t session();

  // Work that is enqueued between the two is timed.
  Mark begin(CUstream stream);
  void end(Mark begin, profiling::Span span, CUstream stream);

  // The steps of a replay, whose marks have passed: one more than steps.
  void tell_sample(std::uint64_t session, std::uint32_t plan, std::uint32_t lane,
                   std::span<const Mark> marks, std::span<const std::uint32_t> numbers);

  // Waits for everything timed, and tells it.
  void flush();

  // Executables whose replays flush() asks for.
  void add(CudaExecutable* executable);
  void remove(CudaExecutable* executable);

 private:
  struct Pending {
    Mark begin, end;
    profiling::Span span;
    bool is_base = false;  // `end` is what later times are taken from
  };
  Mark take_mark();
  profiling::Time time_of(const Mark& mark) const;
  // Tells what has passed; with `wait` everything.
  void drain(bool wait);

  const Context& context_;
  const int device_;
  std::mutex mutex_;  // guards all below but the executables
  std::uint64_t session_ = 0;
  Mark base_;
  profiling::Time base_time_ = 0;
  profiling::Time based_at_ = 0;  // when the last base was recorded, by the host's clock
  std::deque<Pending> pending_;   // in the order of the device's work
  std::vector<Mark> spare_;
  std::mutex executables_mutex_;
  std::vector<CudaExecutable*> executables_;
};

}  // namespace volta::cuda
