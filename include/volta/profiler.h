// Profiler: records the time of kernels, library calls, copies and the host, and the memory in use,
// while an object lives.
//
//   Profiler profiler;
//   for (const data::Batch& batch : loader) train_step(batch);
//   const Profile profile = profiler.stop();
//   std::cout << profile;                // a table, longest first
//   profile.save_trace("trace.json");    // for chrome://tracing or ui.perfetto.dev
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// An interval of work. Times are in seconds since the recording began.
struct ProfileEvent {
  // Work of `device` is "kernel", "matmul", "convolution", "attention", "sort", "loop", "upload",
  // "download" or "copy"; "host" is Volta's work in the program's thread; "range" is a
  // ProfileRange.
  std::string kind;
  std::string what;
  Device device = Device::cpu();
  int thread = 0;  // for "host" and "range": counted from 1 in the order of appearance
  int stream = 0;  // for work that computes on a device (StreamScope)
  double start = 0;
  double seconds = 0;
  std::uint64_t bytes = 0;  // read and written
  std::uint64_t operations = 0;
};

// All events of one kind that do the same work on one device.
struct ProfileRow {
  std::string kind;
  std::string what;
  Device device = Device::cpu();
  std::uint64_t calls = 0;
  double seconds = 0;
  double share = 0;  // fraction of the device's busy time; for "host", of the whole time
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  bool memory_bound = true;
  // Fraction of the peak bandwidth or arithmetic that bounds it; 0 if unknown.
  double peak_share = 0;
};

struct ProfileMemory {
  Device device = Device::cpu();
  double at = 0;
  std::uint64_t in_use = 0;
  std::uint64_t reserved = 0;
};

struct VOLTA_API Profile {
  double seconds = 0;                // from the start to stop()
  std::vector<ProfileEvent> events;  // ordered by start
  std::vector<ProfileMemory> memory;
  std::vector<ProfileRow> rows;  // longest first
  std::uint64_t dropped = 0;     // number of events beyond the limit

  // The time in seconds in which the device computed or copied.
  double busy_seconds(Device device) const;
  // Returns the longest rows as text.
  std::string table(int longest = 20) const;
  // Writes Chrome's trace format. Throws IoError.
  void save_trace(const std::string& path) const;
};
VOLTA_API std::ostream& operator<<(std::ostream& out, const Profile& profile);

struct ProfilerOptions {
  bool memory = true;  // records the memory in use at every change
  // Limit for events and for memory records each; later ones are only counted.
  std::uint64_t most_events = 2'000'000;
};

// Records the work of all threads on all devices. There is one recording at a time; a second
// Profiler throws ArgumentError. CUDA graphs are timed as a whole; one replay in 32 records an
// event between its steps, and the times of the others are divided in the same proportions. OpenCL
// devices use a queue with profiling enabled.
class VOLTA_API Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();  // discards the recording unless stop() was called
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Waits for the devices and ends the recording. A second call throws ArgumentError.
  Profile stop();

 private:
  bool recording_ = true;
};

// Names the work of this thread while the object lives, in profiles and, once a CUDA device was
// used, in NVIDIA's tools (NVTX). A range that is open when the recording ends is counted until
// then.
class VOLTA_API ProfileRange {
 public:
  explicit ProfileRange(std::string_view name);
  ~ProfileRange();
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  std::unique_ptr<struct OpenRange> open_;
};

}  // namespace volta
