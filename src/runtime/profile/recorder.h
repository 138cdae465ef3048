// What was told during a recording, kept until it ends.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/profiling.h"
#include "volta/profiler.h"

namespace volta::profiling {

struct DeviceEvent {
  Device device = Device::cpu();
  int thread = 0;  // of the CPU's: the one that ran it; else 0
  Span span;
};

struct HostEvent {
  std::string what;
  bool is_range = false;
  int thread = 0;
  Time begin = 0, end = 0;
};

struct MemoryEvent {
  Device device = Device::cpu();
  Time at = 0;
  std::uint64_t in_use = 0, reserved = 0;
};

struct Recording {
  ProfilerOptions options;
  Time begin = 0, end = 0;
  std::vector<DeviceEvent> spans;
  std::vector<HostEvent> host;
  std::vector<MemoryEvent> memory;
  std::unordered_map<std::uint32_t, std::vector<StepInfo>> plans;
  std::unordered_map<std::thread::id, int> threads;
  std::uint64_t dropped = 0;

  int thread_number(std::thread::id thread = std::this_thread::get_id()) {
    return threads.try_emplace(thread, static_cast<int>(threads.size()) + 1).first->second;
  }
  bool is_full() const { return spans.size() + host.size() >= options.most_events; }
};

// Throws ArgumentError while another recording is under way.
void begin_recording(ProfilerOptions options);
Recording end_recording();

// Runs split into steps, as their samples say; samples as if nothing had slowed them down. The
// others stay as they are.
VOLTA_BACKEND_API std::vector<DeviceEvent> split_runs(std::vector<DeviceEvent> spans);

// A recording as what users see.
Profile make_profile(const Recording& recording);

}  // namespace volta::profiling
