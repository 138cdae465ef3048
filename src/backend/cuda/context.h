// One device's primary context and its first compute stream, the checking of every status, and what
// becomes of a device after a fault: it is lost, and every later call says so.
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

  // Throws BackendError for a status that is not success, naming what was being done. A fault of
  // the device makes it lost.
  void check(CUresult status, const char* doing) const {
    if (status != CUDA_SUCCESS) [[unlikely]]
      fail(status, doing);
  }
  // Throws BackendError if the device is lost.
  void ensure_alive() const;
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  // Waits for the first compute stream, or another.
  void synchronize() const { synchronize(stream_); }
  void synchronize(CUstream stream) const;
  // Further streams that compute, and waiting for all that do.
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

// Makes a device's context current for a scope; the thread's own, if it has one, is current again
// afterwards. A thread without one keeps the device's, so that the next scope costs next to
// nothing.
class ContextScope {
 public:
  explicit ContextScope(const Context& context);
  // For destructors: a failure leaves the calls inside to fail, unheard.
  ContextScope(const Context& context, std::nothrow_t) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  CUresult enter() noexcept;

  const Context& context_;
  bool pushed_ = false;
};

// The owners below enter the context by themselves where they make and destroy.

// Memory of the device. Empty when default-constructed or moved from.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws OutOfMemory when the device has no more.
  DeviceMemory(const Context& context, std::size_t bytes);
  // Empty when the device has no more.
  static DeviceMemory try_allocate(const Context& context, std::size_t bytes);
  ~DeviceMemory() { reset(); }
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  CUdeviceptr address() const { return address_; }
  explicit operator bool() const { return address_ != 0; }
  // The caller takes the memory over.
  CUdeviceptr detach();

 private:
  void reset() noexcept;

  const Context* context_ = nullptr;
  CUdeviceptr address_ = 0;
};

// Page-locked host memory, zeroed, which the device sees too.
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

class Stream {
 public:
  explicit Stream(const Context& context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }

 private:
  const Context& context_;
  CUstream stream_ = nullptr;
};

// A point in a stream's work.
class Event {
 public:
  explicit Event(const Context& context);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  void record(CUstream stream) const;
  // Waits until the last recorded point has passed; returns at once when none was recorded.
  void wait() const;
  bool has_passed() const noexcept;  // or the device is lost
  // The stream's work from now on waits for the last recorded point.
  void hold(CUstream stream) const;

 private:
  const Context* context_;
  CUevent event_ = nullptr;
};

// A point in the compute stream's work whose time is measured.
class TimedEvent {
 public:
  explicit TimedEvent(const Context& context);
  ~TimedEvent();
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record() const;
  // Waits for this one.
  double seconds_since(const TimedEvent& earlier) const;

 private:
  const Context& context_;
  CUevent event_ = nullptr;
};

// Seconds that one run takes on the device, from several after a first one; nothing where `run`,
// which enqueues one, says that it cannot. Short runs are repeated until their time says something.
template <class Run>
std::optional<double> seconds_of_a_run(const Context& context, const Run& run) {
  constexpr int kFewest = 3, kMost = 40;
  constexpr double kEnough = 4e-4;
  const TimedEvent begin(context), end(context);
  const auto timed = [&](int runs) -> std::optional<double> {
    // Keeps the device busy while the host enqueues what is timed.
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
// of zeros would tell little: their bits do not change, so that the device draws less power and
// runs faster than it will.
void fill_with_numbers(const Context& context, CUdeviceptr memory, std::size_t bytes);

}  // namespace volta::cuda
