// The events of a profile's recording, kept until it ends.
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
  int thread = 0;  // the thread that ran a step of the CPU; 0 for other devices
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

// Throws ArgumentError if another recording is in progress.
void begin_recording(ProfilerOptions options);
Recording end_recording();

// Splits runs into steps in proportion to the sampled times of their plan. Samples become steps
// too, scaled to the length of an undisturbed run. Other spans are unchanged.
VOLTA_BACKEND_API std::vector<DeviceEvent> split_runs(std::vector<DeviceEvent> spans);

// Builds the profile that users see.
Profile make_profile(const Recording& recording);

}  // namespace volta::profiling
