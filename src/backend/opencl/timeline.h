// Reports to the profiler, from the events of commands, when they ran on the device.
#pragma once

#include <cstdint>
#include <deque>

#include "backend/opencl/handles.h"
#include "core/profiling.h"
#include "volta/device.h"

namespace volta::opencl {

// Used under the device's lock, like its queue.
class Timeline {
 public:
  explicit Timeline(Device device) : device_(device) {}

  // Sets the profiler's current recording; with 0, commands need no events.
  void set_session(std::uint64_t session);
  std::uint64_t session() const { return session_; }
  bool is_recording() const { return session_ != 0; }

  // Sets the span (plan, step, kind) that the next commands are reported as.
  void set_span(const profiling::Span& span) { span_ = span; }
  // Where to store the event of the next command; null if no profiler records. The command's queue
  // must record times.
  cl_event* next_event();

  // Reports the commands that have ended; with `wait`, waits for all of them.
  void tell(bool wait);

 private:
  struct Pending {
    profiling::Span span;
    profiling::Time enqueued = 0;  // by the host's clock
    cl_event event = nullptr;      // null if the command was rejected
  };

  const Device device_;
  std::uint64_t session_ = 0;
  profiling::Span span_;
  std::deque<Pending> pending_;
  // The host's clock minus the device's, measured at the first command.
  profiling::Time offset_ = 0;
  bool has_offset_ = false;
};

}  // namespace volta::opencl
