// The times of commands, from their events.
#include "backend/opencl/timeline.h"

#include <algorithm>
#include <vector>

namespace volta::opencl {
namespace {

// When more than this many are pending, those that have ended are reported.
constexpr std::size_t kMostPending = 2048;

profiling::Time moment(cl_event event, cl_profiling_info which) {
  cl_ulong nanoseconds = 0;
  check(clGetEventProfilingInfo(event, which, sizeof(nanoseconds), &nanoseconds, nullptr),
        "clGetEventProfilingInfo");
  return static_cast<profiling::Time>(nanoseconds);
}

bool has_ended(cl_event event) {
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr),
        "clGetEventInfo");
  return status <= CL_COMPLETE;
}

}  // namespace

void Timeline::set_session(std::uint64_t session) {
  if (session == session_) return;
  for (const Pending& pending : pending_) {
    if (pending.event != nullptr) clReleaseEvent(pending.event);
  }
  pending_.clear();
  has_offset_ = false;
  session_ = session;
}

cl_event* Timeline::next_event() {
  if (session_ == 0) return nullptr;
  if (pending_.size() > kMostPending) tell(false);
  return &pending_.emplace_back(Pending{span_, profiling::now()}).event;
}

void Timeline::tell(bool wait) {
  std::vector<profiling::Span> spans;
  while (!pending_.empty()) {
    const Pending oldest = pending_.front();
    if (oldest.event != nullptr && !wait && !has_ended(oldest.event)) break;
    pending_.pop_front();
    if (oldest.event == nullptr) continue;
    const EventHandle event(oldest.event);
    check_wait(clWaitForEvents(1, &oldest.event), "clWaitForEvents");
    if (!has_offset_) {
      offset_ = oldest.enqueued - moment(event.get(), CL_PROFILING_COMMAND_QUEUED);
      has_offset_ = true;
    }
    profiling::Span span = oldest.span;
    span.begin = offset_ + moment(event.get(), CL_PROFILING_COMMAND_START);
    span.end = std::max(span.begin, offset_ + moment(event.get(), CL_PROFILING_COMMAND_END));
    spans.push_back(span);
  }
  if (session_ == profiling::session()) profiling::add(device_, spans);
}

}  // namespace volta::opencl
