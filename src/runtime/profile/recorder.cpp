// The recording in progress, to which all threads add events.
#include "runtime/profile/recorder.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backend/fork_guard.h"
#include "backend/registry.h"
#include "platform/fork.h"
#include "runtime/placement/device_times.h"
#include "volta/detail/utf8.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta {

struct OpenRange {
  std::string name;
  std::uint64_t session = 0;
  profiling::Time begin = 0;
  std::thread::id thread = std::this_thread::get_id();
  Backend* tool = nullptr;
};

namespace profiling {
namespace detail {
std::atomic<std::uint64_t> session{0};
std::atomic<bool> records_memory{true};
}  // namespace detail
namespace {

struct State {
  platform::ForkMutex mutex;
  std::uint64_t last_session = 0;
  Recording recording;
  std::vector<const OpenRange*> open;  // ranges of the recording in progress
};

State& state() {
  static auto* const state = new State;  // usable until the process ends
  return *state;
}

// Calls body(recording) if `number` is the recording in progress.
template <class Body>
void with_recording(std::uint64_t number, const Body& body) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (number != 0 && number == session()) body(s.recording);
}

void add_to(Recording& recording, HostEvent event) {
  if (recording.is_full()) {
    ++recording.dropped;
  } else {
    recording.host.push_back(std::move(event));
  }
}

void open_range(const OpenRange& range) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (range.session == session()) s.open.push_back(&range);
}

void close_range(OpenRange& range, Time end) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (std::erase(s.open, &range) == 0) return;  // closed when its recording ended
  add_to(s.recording,
         {std::move(range.name), true, s.recording.thread_number(range.thread), range.begin, end});
}

}  // namespace

void begin_recording(ProfilerOptions options) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (session() != 0) throw ArgumentError("Profiler: another one is recording; stop it first");
  s.recording = {};
  s.open.clear();
  s.recording.options = options;
  detail::records_memory.store(options.memory, std::memory_order_relaxed);
  s.recording.begin = now();
  detail::session.store(++s.last_session, std::memory_order_release);
}

Recording end_recording() {
  State& s = state();
  for_each_used_device([](DeviceEntry& entry) {
    if (is_forked(entry)) return;
    const std::lock_guard guard(entry.lock);
    try {
      entry.backend.flush_profile(entry.index);
    } catch (const std::exception& error) {  // the profile then lacks the device's last spans
      log(LogLevel::warning, "Profiler: " + std::string(error.what()));
    }
  });
  const std::lock_guard guard(s.mutex);
  detail::session.store(0, std::memory_order_release);
  s.recording.end = now();
  for (const OpenRange* range : std::exchange(s.open, {})) {
    add_to(s.recording, {range->name, true, s.recording.thread_number(range->thread), range->begin,
                         s.recording.end});
  }
  return std::exchange(s.recording, {});
}

void add(Device device, std::span<const Span> spans) {
  with_recording(session(), [&](Recording& recording) {
    const int thread = device.is_cpu() ? recording.thread_number() : 0;
    const bool was_full = recording.is_full();
    for (const Span& span : spans) {
      // Samples of a run are only useful together, so they are kept or dropped together.
      if (span.kind == Span::Kind::Sample ? was_full : recording.is_full()) {
        ++recording.dropped;
      } else {
        recording.spans.push_back({device, thread, span});
      }
    }
  });
}

bool knows_plan(std::uint32_t plan) {
  const std::lock_guard guard(state().mutex);
  return state().recording.plans.contains(plan);
}

void add_plan(std::uint32_t plan, std::vector<StepInfo> steps) {
  with_recording(session(), [&](Recording& recording) {
    recording.plans.try_emplace(plan, std::move(steps));
  });
}

void add_memory(Device device, std::uint64_t in_use, std::uint64_t reserved) noexcept {
  try {
    if (!detail::records_memory.load(std::memory_order_relaxed)) return;
    with_recording(session(), [&](Recording& recording) {
      if (recording.memory.size() >= recording.options.most_events) {
        ++recording.dropped;
      } else {
        recording.memory.push_back({device, now(), in_use, reserved});
      }
    });
  } catch (...) {  // the memory curve then lacks this sample
  }
}

void HostSpan::end() noexcept {
  try {
    with_recording(session_, [&](Recording& recording) {
      add_to(recording, {what_, false, recording.thread_number(), begin_, now()});
    });
  } catch (...) {  // the profile then lacks this event
  }
}

}  // namespace profiling

Profiler::Profiler(ProfilerOptions options) {
  graph::prepare_figures();
  profiling::begin_recording(options);
}

Profiler::~Profiler() {
  if (!recording_) return;
  try {
    profiling::end_recording();
  } catch (...) {  // a lost device has no events to report
    profiling::detail::session.store(0, std::memory_order_release);
  }
}

Profile Profiler::stop() {
  if (!recording_) throw ArgumentError("Profiler::stop: it was stopped before");
  recording_ = false;
  try {
    return profiling::make_profile(profiling::end_recording());
  } catch (...) {  // after the loss of a device, the next profiler must be able to record
    profiling::detail::session.store(0, std::memory_order_release);
    throw;
  }
}

ProfileRange::ProfileRange(std::string_view name) {
  const std::uint64_t session = profiling::session();
  Backend* tool = nullptr;  // the backend whose vendor's tools are attached
  for_each_used_device([&](DeviceEntry& entry) {
    if (entry.index == 0 && entry.backend.shows_ranges()) tool = &entry.backend;
  });
  if (session == 0 && tool == nullptr) return;
  open_ = std::make_unique<OpenRange>();
  open_->name = detail::valid_utf8(name);  // traces are JSON, which allows only valid UTF-8
  open_->session = session;
  open_->tool = tool;
  if (tool != nullptr) tool->begin_range(open_->name.c_str());
  open_->begin = profiling::now();
  if (session != 0) profiling::open_range(*open_);
}

ProfileRange::~ProfileRange() {
  if (open_ == nullptr) return;
  const profiling::Time end = profiling::now();
  if (open_->tool != nullptr) open_->tool->end_range();
  if (open_->session == 0) return;
  try {
    profiling::close_range(*open_, end);
  } catch (...) {  // the profile then lacks this event
  }
}

}  // namespace volta
