// Events around the work of a device.
#include "backend/cuda/timeline.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/executable.h"
#include "core/registry.h"

namespace volta::cuda {
namespace {

// What is told later than this many others is told in between.
constexpr std::size_t kMostPending = 2048;
// Times between events are in milliseconds, as floats: from a base that is near they are exact.
constexpr profiling::Time kBaseNanoseconds = 2'000'000'000;

}  // namespace

Mark::Mark(const Context& context) : context_(&context) {
  context.check(context.driver().cuEventCreate(&event_, CU_EVENT_DEFAULT), "making an event");
}

Mark::~Mark() {
  if (event_ == nullptr) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().cuEventDestroy(event_);
}

Mark::Mark(Mark&& other) noexcept
    : context_(other.context_), event_(std::exchange(other.event_, nullptr)) {}

Mark& Mark::operator=(Mark&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(event_, other.event_);
  return *this;
}

void Mark::record(CUstream stream) const {
  context_->check(context_->driver().cuEventRecord(event_, stream), "recording an event");
}

void Mark::record_in_replays(CUstream stream) const {
  context_->check(
      context_->driver().cuEventRecordWithFlags(event_, stream, CU_EVENT_RECORD_EXTERNAL),
      "capturing an event");
}

bool Mark::has_passed() const {
  const CUresult status = context_->driver().cuEventQuery(event_);
  if (status == CUDA_ERROR_NOT_READY) return false;
  context_->check(status, "asking for an event");
  return true;
}

void Mark::wait() const {
  context_->check(context_->driver().cuEventSynchronize(event_), "waiting for an event");
}

double Mark::nanoseconds_since(const Mark& earlier) const {
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
  pending_.clear();  // of a recording that ended without asking
  base_ = Mark(context_);
  context_.synchronize();
  base_.record(context_.stream());
  base_.wait();
  base_time_ = based_at_ = profiling::now();
  session_ = current;
  return current;
}

Mark Timeline::take_mark() {
  if (spare_.empty()) return Mark(context_);
  Mark mark = std::move(spare_.back());
  spare_.pop_back();
  return mark;
}

Mark Timeline::begin(CUstream stream) {
  const std::lock_guard lock(mutex_);
  Mark mark = take_mark();
  mark.record(stream);
  return mark;
}

void Timeline::end(Mark begin, profiling::Span span, CUstream stream) {
  const std::lock_guard lock(mutex_);
  Mark mark = take_mark();
  mark.record(stream);
  pending_.push_back({std::move(begin), std::move(mark), span});
  if (profiling::now() - based_at_ > kBaseNanoseconds) {
    Mark base = take_mark();
    base.record(context_.stream());
    pending_.push_back({Mark(), std::move(base), {}, true});
    based_at_ = profiling::now();
  }
  if (pending_.size() > kMostPending) drain(false);
}

profiling::Time Timeline::time_of(const Mark& mark) const {
  return base_time_ + static_cast<profiling::Time>(mark.nanoseconds_since(base_));
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
    // The difference of two times since the base would be less exact.
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

void Timeline::tell_sample(std::uint64_t session, std::uint32_t plan, std::uint32_t lane,
                           std::span<const Mark> marks, std::span<const std::uint32_t> numbers) {
  const std::lock_guard lock(mutex_);
  if (session != session_ || session != profiling::session()) return;
  std::vector<profiling::Span> spans;
  profiling::Time begin = time_of(marks.front());
  for (std::size_t step = 0; step + 1 < marks.size(); ++step) {
    const auto length =
        static_cast<profiling::Time>(marks[step + 1].nanoseconds_since(marks[step]));
    spans.push_back({.kind = profiling::Span::Kind::Sample,
                     .plan = plan,
                     .step = numbers[step],
                     .lane = lane,
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
