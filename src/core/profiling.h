// What the profiler is told by the runner, the pools and the backends. While nobody records,
// asking costs one load.
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

// Work of a device.
struct Span {
  // Run: all steps of a plan, one after the other, whose times apart are not known. Sample: a step
  // of another run of that plan, slowed down by what took its time. The profile splits runs as
  // their samples say.
  enum class Kind : std::uint8_t { Step, Upload, Download, Copy, Run, Sample };
  Kind kind = Kind::Step;
  std::uint32_t plan = 0, step = 0;  // PlanSteps::id, and the place in it
  std::uint32_t lane = 0;            // of those that compute
  std::uint64_t bytes = 0;           // of copies
  Time begin = 0, end = 0;
};

namespace detail {
VOLTA_BACKEND_API extern std::atomic<std::uint64_t> session;
}
// The number of the recording under way, 0 where there is none. What is timed in one recording and
// told in another is not meant for it.
inline std::uint64_t session() { return detail::session.load(std::memory_order_acquire); }

// Backends tell what their devices did, at once or from Backend::flush_profile.
VOLTA_BACKEND_API void add(Device device, std::span<const Span> spans);
inline void add(Device device, const Span& span) { add(device, {&span, 1}); }

// What the steps of a plan are, before the plan's first run in a recording.
bool knows_plan(std::uint32_t plan);
void add_plan(std::uint32_t plan, std::vector<StepInfo> steps);

void add_memory(Device device, std::uint64_t in_use, std::uint64_t reserved) noexcept;

// What this thread does in the library, from here to the end of the scope. `what` is a literal.
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
