// What a program spends its time on: kernels, library calls, copies, host time and memory, recorded
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

// One thing that took time. Times are seconds since the recording began.
struct ProfileEvent {
  // "kernel", "matmul", "convolution", "attention", "sort", "upload", "download", "copy": work of
  // `device`. "host": what Volta did in the program's thread. "range": a ProfileRange.
  std::string kind;
  std::string what;
  Device device = Device::cpu();
  int thread = 0;  // of "host" and "range": counted from 1 in the order of appearance
  int stream = 0;  // of what computes on a device (StreamScope)
  double start = 0;
  double seconds = 0;
  std::uint64_t bytes = 0;  // read and written
  std::uint64_t operations = 0;
};

// All events of one kind that do the same on one device.
struct ProfileRow {
  std::string kind;
  std::string what;
  Device device = Device::cpu();
  std::uint64_t calls = 0;
  double seconds = 0;
  double share = 0;  // of the time in which the device worked; of "host": of the whole
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  bool memory_bound = true;
  double peak_share = 0;  // of the bandwidth or arithmetic that bounds it; 0: not known
};

struct ProfileMemory {
  Device device = Device::cpu();
  double at = 0;
  std::uint64_t in_use = 0;
  std::uint64_t reserved = 0;
};

struct VOLTA_API Profile {
  double seconds = 0;                // from the beginning to stop()
  std::vector<ProfileEvent> events;  // by start
  std::vector<ProfileMemory> memory;
  std::vector<ProfileRow> rows;  // the longest first
  std::uint64_t dropped = 0;     // events beyond what is kept

  // Seconds in which the device computed or copied.
  double busy_seconds(Device device) const;
  // The longest rows as text.
  std::string table(int longest = 20) const;
  // Chrome's trace format. Throws IoError.
  void save_trace(const std::string& path) const;
};
VOLTA_API std::ostream& operator<<(std::ostream& out, const Profile& profile);

struct ProfilerOptions {
  bool memory = true;  // note how much memory is in use, at every change
  // Of events, and of notes of memory; later ones are counted only.
  std::uint64_t most_events = 2'000'000;
};

// Records everything that all threads do on all devices. One at a time: a second one throws
// ArgumentError. CUDA graphs are replayed as they are and timed as a whole; one replay in 32 has
// marks between its steps, and by what these say the others are split. OpenCL devices work through
// a queue that takes times.
class VOLTA_API Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();  // forgets what stop() did not take
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Waits for the devices and ends the recording. Throws ArgumentError the second time.
  Profile stop();

 private:
  bool recording_ = true;
};

// A name for what this thread does while the object lives: in profiles, and in NVIDIA's tools
// (NVTX) once a CUDA device was used. One that is open when the recording ends counts until then.
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
