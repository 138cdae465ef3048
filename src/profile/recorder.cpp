// The recording under way.
#include "profile/recorder.h"

#include <exception>
#include <memory>
#include <string>

#include "core/fork_guard.h"
#include "core/registry.h"
#include "graph/device_times.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::profiling {
namespace detail {
std::atomic<std::uint64_t> session{0};
std::atomic<bool> records_memory{true};
}  // namespace detail
namespace {

struct State {
  std::mutex mutex;
  std::uint64_t last_session = 0;
  Recording recording;
};

State& state() {
  static auto* const state = new State;  // usable until the process ends
  return *state;
}

// Calls body(recording), which adds so many events, if this is the recording under way and has
// room.
template <class Body>
void with_recording(std::uint64_t number, std::size_t events, const Body& body) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (number == 0 || number != session()) return;
  if (s.recording.is_full()) {
    s.recording.dropped += events;
    return;
  }
  body(s.recording);
}

}  // namespace

void begin_recording(ProfilerOptions options) {
  State& s = state();
  const std::lock_guard guard(s.mutex);
  if (session() != 0) throw ArgumentError("Profiler: another one is recording; stop it first");
  s.recording = {};
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
    } catch (const std::exception& error) {  // a profile without the device's last spans
      log(LogLevel::warning, "Profiler: " + std::string(error.what()));
    }
  });
  const std::lock_guard guard(s.mutex);
  detail::session.store(0, std::memory_order_release);
  s.recording.end = now();
  return std::exchange(s.recording, {});
}

void add(Device device, std::span<const Span> spans) {
  with_recording(session(), spans.size(), [&](Recording& recording) {
    const int thread = device.is_cpu() ? recording.thread_number() : 0;
    for (const Span& span : spans) recording.spans.push_back({device, thread, span});
  });
}

bool knows_plan(std::uint32_t plan) {
  const std::lock_guard guard(state().mutex);
  return state().recording.plans.contains(plan);
}

void add_plan(std::uint32_t plan, std::vector<StepInfo> steps) {
  with_recording(session(), 0, [&](Recording& recording) {
    recording.plans.try_emplace(plan, std::move(steps));
  });
}

void add_memory(Device device, std::uint64_t in_use, std::uint64_t reserved) noexcept {
  try {
    if (!detail::records_memory.load(std::memory_order_relaxed)) return;
    with_recording(session(), 1, [&](Recording& recording) {
      recording.memory.push_back({device, now(), in_use, reserved});
    });
  } catch (...) {  // a curve without it
  }
}

void add_host(std::uint64_t number, std::string what, bool is_range, Time begin, Time end) {
  with_recording(number, 1, [&](Recording& recording) {
    recording.host.push_back({std::move(what), is_range, recording.thread_number(), begin, end});
  });
}

void HostSpan::end() noexcept {
  try {
    add_host(session_, what_, false, begin_, now());
  } catch (...) {  // a profile without it
  }
}

}  // namespace volta::profiling

namespace volta {

Profiler::Profiler(ProfilerOptions options) {
  graph::prepare_figures();
  profiling::begin_recording(options);
}

Profiler::~Profiler() {
  if (!recording_) return;
  try {
    profiling::end_recording();
  } catch (...) {  // a lost device has nothing to tell
    profiling::detail::session.store(0, std::memory_order_release);
  }
}

Profile Profiler::stop() {
  if (!recording_) throw ArgumentError("Profiler::stop: it was stopped before");
  recording_ = false;
  try {
    return profiling::make_profile(profiling::end_recording());
  } catch (...) {  // a lost device: the next profiler is free to record
    profiling::detail::session.store(0, std::memory_order_release);
    throw;
  }
}

struct OpenRange {
  std::string name;
  std::uint64_t session = 0;
  profiling::Time begin = 0;
  Backend* tool = nullptr;
};

ProfileRange::ProfileRange(std::string_view name) {
  const std::uint64_t session = profiling::session();
  Backend* tool = nullptr;  // whose vendor's tools are watching
  for_each_used_device([&](DeviceEntry& entry) {
    if (entry.index == 0 && entry.backend.shows_ranges()) tool = &entry.backend;
  });
  if (session == 0 && tool == nullptr) return;
  open_ = std::make_unique<OpenRange>();
  open_->name = name;
  open_->session = session;
  open_->tool = tool;
  if (tool != nullptr) tool->begin_range(open_->name.c_str());
  open_->begin = profiling::now();
}

ProfileRange::~ProfileRange() {
  if (open_ == nullptr) return;
  const profiling::Time end = profiling::now();
  if (open_->tool != nullptr) open_->tool->end_range();
  if (open_->session == 0) return;
  try {
    profiling::add_host(open_->session, std::move(open_->name), true, open_->begin, end);
  } catch (...) {  // a profile without it
  }
}

}  // namespace volta
