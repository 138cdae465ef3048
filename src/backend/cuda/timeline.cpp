// Events around the work of a device.
#include "backend/cuda/timeline.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/executable.h"
#include "backend/registry.h"

namespace volta::cuda {
namespace {

// When more than this many are pending, those that have passed are reported.
constexpr std::size_t kMostPending = 2048;
// CUDA reports times between events as floats in milliseconds, which are precise enough only for a
// recent base.
constexpr profiling::Time kBaseNanoseconds = 2'000'000'000;

}  // namespace

TimelineEvent::TimelineEvent(const Context& context) : context_(&context) {
  context.check(context.driver().cuEventCreate(&event_, CU_EVENT_DEFAULT), "making an event");
}

TimelineEvent::~TimelineEvent() {
  if (event_ == nullptr) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().cuEventDestroy(event_);
}

TimelineEvent::TimelineEvent(TimelineEvent&& other) noexcept
    : context_(other.context_), event_(std::exchange(other.event_, nullptr)) {}

TimelineEvent& TimelineEvent::operator=(TimelineEvent&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(event_, other.event_);
  return *this;
}

void TimelineEvent::record(CUstream stream) const {
  context_->check(context_->driver().cuEventRecord(event_, stream), "recording an event");
}

void TimelineEvent::record_in_replays(CUstream stream) const {
  context_->check(
      context_->driver().cuEventRecordWithFlags(event_, stream, CU_EVENT_RECORD_EXTERNAL),
      "capturing an event");
}

bool TimelineEvent::has_passed() const {
  const CUresult status = context_->driver().cuEventQuery(event_);
  if (status == CUDA_ERROR_NOT_READY) return false;
  context_->check(status, "asking for an event");
  return true;
}

void TimelineEvent::wait() const {
  context_->check(context_->driver().cuEventSynchronize(event_), "waiting for an event");
}

double TimelineEvent::nanoseconds_since(const TimelineEvent& earlier) const {
  float milliseconds = 0;
  context_->check(context_->driver().cuEventElapsedTime(&milliseconds, earlier.event_, event_),
                  "reading the time between events");
  return 1e6 * static_cast<double>(milliseconds);
}

Timeline::Timeline(const Context& context, int device) : context_(context), device_(device) {}

std::uint64_t Timeline::session() {
  const std::uint64_t current = profiling::session();
  if (current == 0) return 0;
  const std::lock_guard lock(mutex_);
  if (session_ == current) return current;
  pending_.clear();  // left from a recording that ended without flush()
  base_ = TimelineEvent(context_);
  context_.synchronize();
  base_.record(context_.stream());
  base_.wait();
  base_time_ = based_at_ = profiling::now();
  session_ = current;
  return current;
}

TimelineEvent Timeline::take_event() {
  if (spare_.empty()) return TimelineEvent(context_);
  TimelineEvent event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

TimelineEvent Timeline::begin(CUstream stream) {
  const std::lock_guard lock(mutex_);
  TimelineEvent event = take_event();
  event.record(stream);
  return event;
}

void Timeline::end(TimelineEvent begin, profiling::Span span, CUstream stream) {
  const std::lock_guard lock(mutex_);
  TimelineEvent event = take_event();
  event.record(stream);
  pending_.push_back({std::move(begin), std::move(event), span});
  if (profiling::now() - based_at_ > kBaseNanoseconds) {
    TimelineEvent base = take_event();
    base.record(context_.stream());
    pending_.push_back({TimelineEvent(), std::move(base), {}, true});
    based_at_ = profiling::now();
  }
  if (pending_.size() > kMostPending) drain(false);
}

profiling::Time Timeline::time_of(const TimelineEvent& event) const {
  return base_time_ + static_cast<profiling::Time>(event.nanoseconds_since(base_));
}

void Timeline::drain(bool wait) {
  std::vector<profiling::Span> spans;
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    if (wait) {
      oldest.end.wait();
    } else if (!oldest.end.has_passed()) {
      break;
    }
    if (oldest.is_base) {
      base_time_ = time_of(oldest.end);
      base_ = std::move(oldest.end);
      pending_.pop_front();
      continue;
    }
    profiling::Span span = oldest.span;
    span.begin = time_of(oldest.begin);
    // The difference of two times since the base would be less precise.
    span.end =
        span.begin + static_cast<profiling::Time>(oldest.end.nanoseconds_since(oldest.begin));
    spans.push_back(span);
    spare_.push_back(std::move(oldest.begin));
    spare_.push_back(std::move(oldest.end));
    pending_.pop_front();
  }
  if (session_ == profiling::session())
    profiling::add(DeviceAccess::make(DeviceType::cuda, device_), spans);
}

void Timeline::tell_sample(std::uint64_t session, std::uint32_t plan, std::uint32_t stream_number,
                           std::span<const TimelineEvent> events,
                           std::span<const std::uint32_t> numbers) {
  const std::lock_guard lock(mutex_);
  if (session != session_ || session != profiling::session()) return;
  std::vector<profiling::Span> spans;
  profiling::Time begin = time_of(events.front());
  for (std::size_t step = 0; step + 1 < events.size(); ++step) {
    const auto length =
        static_cast<profiling::Time>(events[step + 1].nanoseconds_since(events[step]));
    spans.push_back({.kind = profiling::Span::Kind::Sample,
                     .plan = plan,
                     .step = numbers[step],
                     .stream = stream_number,
                     .begin = begin,
                     .end = begin + length});
    begin += length;
  }
  profiling::add(DeviceAccess::make(DeviceType::cuda, device_), spans);
}

void Timeline::flush() {
  if (session() == 0) return;
  {
    const std::lock_guard lock(executables_mutex_);
    for (CudaExecutable* executable : executables_) executable->tell_replays();
  }
  const std::lock_guard lock(mutex_);
  drain(true);
  spare_.clear();
}

void Timeline::add(CudaExecutable* executable) {
  const std::lock_guard lock(executables_mutex_);
  executables_.push_back(executable);
}

void Timeline::remove(CudaExecutable* executable) {
  const std::lock_guard lock(executables_mutex_);
  std::erase(executables_, executable);
}

}  // namespace volta::cuda
