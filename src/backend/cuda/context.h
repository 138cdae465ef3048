// The primary context and first compute stream of a device, and the check of every status. After a
// fault the device is lost, and every later call reports that.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/driver.h"

namespace volta::cuda {

class Context {
 public:
  Context(const Libraries& libraries, int index);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return libraries_.driver; }
  const Libraries& libraries() const { return libraries_; }
  const std::string& name() const { return name_; }  // "cuda:0"
  CUcontext handle() const { return handle_; }
  CUstream stream() const { return stream_; }
  std::string device_name() const;
  int compute_capability() const { return compute_capability_; }  // 90 for 9.0

  // Throws BackendError that names the failed action if the status is not success. A fault of the
  // device marks it as lost.
  void check(CUresult status, const char* doing) const {
    if (status != CUDA_SUCCESS) [[unlikely]]
      fail(status, doing);
  }
  // Throws BackendError if the device is lost.
  void ensure_alive() const;
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  // Waits for the first compute stream, or for a given one.
  void synchronize() const { synchronize(stream_); }
  void synchronize(CUstream stream) const;
  // Registers a further compute stream; synchronize_all waits for all of them.
  void add_stream(CUstream stream) const;
  void synchronize_all() const;

 private:
  [[noreturn]] void fail(CUresult status, const char* doing) const;
  void mark_lost(const std::string& reason) const;

  const Libraries& libraries_;
  std::string name_;
  CUdevice device_ = 0;
  CUcontext handle_ = nullptr;
  CUstream stream_ = nullptr;
  int compute_capability_ = 0;
  mutable std::atomic<bool> lost_{false};
  mutable std::mutex lost_mutex_;
  mutable std::string lost_reason_;
  mutable std::mutex streams_mutex_;
  mutable std::vector<CUstream> more_streams_;
};

// Makes a device's context current for a scope. A thread that had a context of its own gets it back
// afterwards; other threads keep the device's, so that the next scope costs next to nothing.
class ContextScope {
 public:
  explicit ContextScope(const Context& context);
  // For destructors: if this fails, the calls inside the scope fail silently.
  ContextScope(const Context& context, std::nothrow_t) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  CUresult enter() noexcept;

  const Context& context_;
  bool pushed_ = false;
};

// The owning classes below enter the context themselves when they create and destroy resources.

// Device memory; empty if default-constructed or moved from.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws OutOfMemory if the device has no more memory.
  DeviceMemory(const Context& context, std::size_t bytes);
  // Returns an empty object if the device has no more memory.
  static DeviceMemory try_allocate(const Context& context, std::size_t bytes);
  ~DeviceMemory() { reset(); }
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  explicit operator bool() const { return address_ != 0; }
  // Releases ownership to the caller.
  CUdeviceptr detach();

 private:
  void reset() noexcept;

  const Context* context_ = nullptr;
  CUdeviceptr address_ = 0;
};

// Page-locked host memory, zeroed, that the device can access too.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const Context& context, std::size_t bytes);
  ~PinnedMemory() { reset(); }
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  void* host() const { return host_; }
  CUdeviceptr device() const { return device_; }

 private:
  void reset() noexcept;

  const Context* context_ = nullptr;
  void* host_ = nullptr;
  CUdeviceptr device_ = 0;
};

// Owns a CUstream.
class StreamHandle {
 public:
  explicit StreamHandle(const Context& context);
  ~StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  CUstream get() const { return stream_; }

 private:
  const Context& context_;
  CUstream stream_ = nullptr;
};

// A CUDA event: a point in a stream's work.
class Event {
 public:
  explicit Event(const Context& context);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  void record(CUstream stream) const;
  // Waits for the last recorded point; returns at once if none was recorded.
  void wait() const;
  bool has_passed() const noexcept;  // true also if the device is lost
  // Makes later work of the stream wait for the last recorded point.
  void wait_in(CUstream stream) const;

 private:
  const Context* context_;
  CUevent event_ = nullptr;
};

// An event in the compute stream that measures time.
class TimedEvent {
 public:
  explicit TimedEvent(const Context& context);
  ~TimedEvent();
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record() const;
  // Waits for this event.
  double seconds_since(const TimedEvent& earlier) const;

 private:
  const Context& context_;
  CUevent event_ = nullptr;
};

// The seconds that one run takes on the device, as a mean over several runs after a warm-up;
// nothing if `run`, which enqueues one run, reports failure. Short runs are repeated until the
// measurement is meaningful.
template <class Run>
std::optional<double> seconds_of_a_run(const Context& context, const Run& run) {
  constexpr int kFewest = 3, kMost = 40;
  constexpr double kEnough = 4e-4;
  const TimedEvent begin(context), end(context);
  const auto timed = [&](int runs) -> std::optional<double> {
    // Keeps the device busy while the host enqueues the timed runs.
    if (!run()) return std::nullopt;
    begin.record();
    for (int i = 0; i < runs; ++i) {
      if (!run()) return std::nullopt;
    }
    end.record();
    return end.seconds_since(begin) / runs;
  };
  context.synchronize_all();
  const std::optional<double> roughly = timed(kFewest);
  if (!roughly || *roughly * kFewest >= kEnough) return roughly;
  return timed(std::min(kMost, static_cast<int>(kEnough / *roughly) + 1));
}

// Fills memory with numbers near ±1 in whatever floating-point format it is read. Timing products
// of zeros would mislead: their bits do not toggle, so the device draws less power and runs faster
// than on real data.
void fill_with_numbers(const Context& context, CUdeviceptr memory, std::size_t bytes);

}  // namespace volta::cuda
