// The events that the runner, the pools and the backends report to the profiler. While nothing is
// being profiled, checking for it costs one load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "volta/device.h"
#include "volta/execution.h"
#include "volta/export.h"

namespace volta::profiling {

// Nanoseconds of the steady clock.
using Time = std::int64_t;
inline Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A span of work on a device.
struct Span {
  // Run: all steps of a plan together, because their separate times are unknown. Sample: one step
  // of another run of that plan, which was slowed down by timing each step. The profile divides the
  // time of a Run in proportion to the Samples.
  enum class Kind : std::uint8_t { Step, Upload, Download, Copy, Run, Sample };
  Kind kind = Kind::Step;
  std::uint32_t plan = 0, step = 0;  // PlanSteps::id and the index of the step in it
  std::uint32_t stream = 0;          // compute stream
  std::uint64_t bytes = 0;           // bytes copied, for copies
  Time begin = 0, end = 0;
};

namespace detail {
VOLTA_BACKEND_API extern std::atomic<std::uint64_t> session;
}
// The number of the current recording, or 0. A span that was timed in one recording and reported in
// another does not belong to the latter.
inline std::uint64_t session() { return detail::session.load(std::memory_order_acquire); }

// Backends report the work of their devices, either at once or from Backend::flush_profile.
VOLTA_BACKEND_API void add(Device device, std::span<const Span> spans);
inline void add(Device device, const Span& span) { add(device, {&span, 1}); }

// Describes the steps of a plan, before the plan's first run in a recording.
bool knows_plan(std::uint32_t plan);
void add_plan(std::uint32_t plan, std::vector<StepInfo> steps);

void add_memory(Device device, std::uint64_t in_use, std::uint64_t reserved) noexcept;

// Reports what this thread does in the library until the end of the scope. `what` is a literal.
class VOLTA_BACKEND_API HostSpan {
 public:
  explicit HostSpan(const char* what) : what_(what), session_(session()) {
    if (session_ != 0) begin_ = now();
  }
  ~HostSpan() {
    if (session_ != 0) end();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  void end() noexcept;
  const char* what_;
  std::uint64_t session_;
  Time begin_ = 0;
};

}  // namespace volta::profiling
