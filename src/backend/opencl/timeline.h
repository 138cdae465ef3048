// When commands ran on the device, by their events: for the profiler, while one records.
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

  // The recording under way; 0: commands need no events.
  void set_session(std::uint64_t session);
  std::uint64_t session() const { return session_; }
  bool is_recording() const { return session_ != 0; }

  // What the next commands are for.
  void set_span(const profiling::Span& span) { span_ = span; }
  // Where the event of the next command goes; null while nobody records. The queue it goes to takes
  // times.
  cl_event* next_event();

  // Tells what has ended; with `wait` everything.
  void tell(bool wait);

 private:
  struct Pending {
    profiling::Span span;
    profiling::Time enqueued = 0;  // by the host's clock
    cl_event event = nullptr;      // null where the command was refused
  };

  const Device device_;
  std::uint64_t session_ = 0;
  profiling::Span span_;
  std::deque<Pending> pending_;
  // The host's clock less the device's, from the first command.
  profiling::Time offset_ = 0;
  bool has_offset_ = false;
};

}  // namespace volta::opencl
