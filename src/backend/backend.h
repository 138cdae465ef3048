// The interface of a device family: memory, copies and running plans. CUDA and OpenCL are shared
// libraries, opened when a program first names one of their devices; they use only those symbols of
// the core that are marked VOLTA_BACKEND_API.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/steps.h"
#include "kernel/program.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/system_info.h"

namespace volta {

// Device memory. On the CPU and CUDA, base + offset is the pointer; on OpenCL, base is a cl_mem and
// offset counts bytes into it.
struct Address {
  void* base = nullptr;
  std::uint64_t offset = 0;
  void* pointer() const { return static_cast<char*>(base) + offset; }
  friend bool operator==(const Address&, const Address&) = default;
};

// A device runs its work in streams. Work in one stream runs in order; streams wait for each other
// only on request. The first kComputeStreams streams compute, the others copy.
inline constexpr std::size_t kComputeStreams = 4;
// Read is for downloads that a caller waits for, Download for those that run in the background.
enum class Stream : std::uint8_t { Compute = 0, Upload = kComputeStreams, Download, Read };
inline constexpr std::size_t kStreams = kComputeStreams + 3;
constexpr std::size_t number_of(Stream stream) { return static_cast<std::size_t>(stream); }
constexpr Stream compute_stream(std::size_t number) { return static_cast<Stream>(number); }

// Work in a compute stream, by the number that Streams gives it (backend/streams.h). Number 0 means
// none.
struct StreamWork {
  std::uint32_t stream = 0;
  std::uint64_t number = 0;
};

// The numbers of the work that used a piece of memory last; 0 means never.
using ComputeTimes = std::array<std::uint64_t, kComputeStreams>;
struct StreamTimes {
  ComputeTimes compute = {};  // by stream
  std::uint64_t upload = 0;
  StreamWork written = {};  // the work that wrote the current value
};

// StreamTimes of memory that several threads share: set under the device's lock, read by any
// thread.
class MemoryTimes {
 public:
  StreamTimes get() const {
    StreamTimes times;
    for (std::size_t stream = 0; stream < kComputeStreams; ++stream)
      times.compute[stream] = compute_[stream].load(std::memory_order_relaxed);
    times.upload = upload();
    times.written = written();
    return times;
  }
  void set(const StreamTimes& times) {
    for (std::size_t stream = 0; stream < kComputeStreams; ++stream)
      note_use(stream, times.compute[stream]);
    note_upload(times.upload);
    note_write(times.written);
  }
  std::uint64_t use(std::size_t stream) const {
    return compute_[stream].load(std::memory_order_relaxed);
  }
  std::uint64_t upload() const { return upload_.load(std::memory_order_relaxed); }
  StreamWork written() const {
    const std::uint64_t word = written_.load(std::memory_order_relaxed);
    return {static_cast<std::uint32_t>(word % kComputeStreams), word / kComputeStreams};
  }
  void note_use(std::size_t stream, std::uint64_t number) {
    compute_[stream].store(number, std::memory_order_relaxed);
  }
  void note_upload(std::uint64_t number) { upload_.store(number, std::memory_order_relaxed); }
  void note_write(StreamWork work) {
    written_.store(work.number * kComputeStreams + work.stream, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kComputeStreams> compute_{};
  std::atomic<std::uint64_t> upload_{0};
  std::atomic<std::uint64_t> written_{0};  // stream and number in one word
};

// An event in a stream: it has passed when all work enqueued before it has ended. Any thread may
// query it.
class VOLTA_BACKEND_API StreamEvent {
 public:
  virtual ~StreamEvent();
  virtual bool has_passed() const noexcept = 0;  // true also when the device is lost
  virtual void wait() const = 0;                 // throws BackendError when the device is lost
};

// Whether a backend's library takes a call, and what the library needs for it.
struct CallSupport {
  bool taken = false;
  std::uint64_t workspace_bytes = 0;   // workspace memory
  bool weights_channels_last = false;  // for convolutions, the layout of the weights
};

// The precision in which a product's elements are multiplied.
enum class Arithmetic : std::uint8_t { Single, Tf32, Half };

// The peak rates of a device, from its data sheet or its driver; 0 means unknown.
struct DeviceFigures {
  double bytes_per_second = 0;
  double operations_per_second = 0;  // f32
  double tf32_per_second = 0;        // products of f32 numbers rounded to tf32
  double halves_per_second = 0;      // products of f16 and bf16 numbers

  double rate(Arithmetic arithmetic) const {
    switch (arithmetic) {
      case Arithmetic::Tf32:
        return tf32_per_second;
      case Arithmetic::Half:
        return halves_per_second;
      case Arithmetic::Single:
        break;
    }
    return operations_per_second;
  }
};

// Estimates of memory outside the pool, in bytes.
struct HeldBytes {
  std::uint64_t host = 0, device = 0;
};
// Estimates of the memory outside the pool that the plans of a device share.
struct SharedBytes {
  std::uint64_t kernels = 0;    // compiled programs
  std::uint64_t libraries = 0;  // what libraries have prepared
};

// A plan prepared for a device: made once, run many times. All compilation, library planning and
// allocation happen in Backend::prepare or at the start of run, before the first launch.
class Executable {
 public:
  virtual ~Executable() = default;

  // The number of leading steps of the latest run that may have written something. The caller sets
  // it to 0 before a run; if the run fails, only the memory that those steps overwrite is lost.
  std::size_t issued = 0;

  // The number of runs that may be in flight. A further run waits, and so does every thread that
  // needs the device's lock.
  std::uint32_t under_way = 8;

  // The memory that only this executable holds. A run may change it, for instance by capturing a
  // graph.
  HeldBytes held;

  // Enqueues the steps and returns without waiting; on the CPU the steps have finished when it
  // returns. `arena` has at least PlanSteps::arena_bytes. `args` is the argument block, copied
  // before run returns. An output may share the address of a leaf (donation). Launches and library
  // calls are counted in live_counters().
  virtual void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
                   std::span<const std::uint64_t> args) = 0;

  // Returns and clears the error that the kernels of a finished run reported, if any; after an
  // error no other run of this executable is in flight. If there were several errors, one of them
  // is returned.
  virtual std::optional<kernel::ErrorRecord> take_error() = 0;
};

class VOLTA_BACKEND_API Backend {
 public:
  virtual ~Backend();

  virtual int device_count() const = 0;
  virtual std::string device_name(int device) const = 0;
  virtual bool device_is_gpu(int device) const = 0;
  virtual std::uint64_t device_memory(int device) const = 0;
  virtual bool supports(int device, DType dtype) const = 0;
  // Whether products of f16 or bf16 matrices, accumulated in f32, run without conversion. If not,
  // plans convert the operands to f32 first.
  virtual bool multiplies_halves(int device, DType dtype) const;
  // Products of at most this many multiplications become sums in kernels, fused with their
  // neighbours, instead of library calls.
  virtual std::int64_t small_product(int /*device*/) const { return std::int64_t{1} << 16; }
  // Whether a library takes a call of these sizes, with its epilogue (bias, ReLU), or the backend's
  // own kernels do (attention). Buffers and strides are not known yet. Convolutions and attention
  // that neither takes are lowered to kernels and products; a product is asked about only if it has
  // an epilogue, and a sort never.
  virtual CallSupport takes(int /*device*/, const plan::Step& /*step*/) { return {}; }
  virtual DeviceFigures figures(int /*device*/) const { return {}; }
  // Identifies the device with its driver and compiler. Timings taken under another fingerprint are
  // ignored.
  virtual std::string fingerprint(int device) const { return device_name(device); }
  // The names of the forms in which the backend's own kernels can run a call (MatmulStep::cut), the
  // default first; empty if there is only one.
  virtual std::vector<std::string> call_forms(int /*device*/, const plan::Step& /*step*/) const {
    return {};
  }
  // Returns the bytes of device memory that are free now, or nothing if the driver does not report
  // them.
  virtual std::optional<std::uint64_t> free_memory(int /*device*/) { return std::nullopt; }
  // Gives the profiler (core/profiling.h) the records of device work that it does not have yet, and
  // waits for that work.
  virtual void flush_profile(int /*device*/) {}
  // Whether a profiler of the vendor is attached to this process. If so, begin_range names what the
  // thread does until the matching end_range.
  virtual bool shows_ranges() const { return false; }
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}
  // The libraries that the family computes with.
  virtual std::vector<LibraryInfo> libraries() const { return {}; }

  // Raw device memory, at least 256-byte aligned; the pool in front of it caches and splits.
  // Returns an empty Address when the device has no more memory.
  virtual Address allocate(int device, std::size_t bytes) = 0;
  virtual void release(int device, Address memory) = 0;

  // Copies in the first compute stream. upload may return before the device has the bytes, but not
  // before `source` may be changed; download waits for the bytes.
  virtual void upload(int device, Address destination, const void* source, std::size_t bytes) = 0;
  virtual void download(int device, void* destination, Address source, std::size_t bytes) = 0;
  virtual void copy(int device, Address destination, Address source, std::size_t bytes) = 0;

  // Whether the device has more than one stream. If not, plans run in the first stream, and the
  // calls below do the same as those above.
  virtual bool has_streams(int /*device*/) const { return false; }
  // Returns an event after everything enqueued in the stream, or null if all of it has ended. May
  // be called from any thread.
  virtual std::shared_ptr<const StreamEvent> record_event(int /*device*/, Stream /*stream*/) {
    return nullptr;
  }
  // Work enqueued in the stream from now on waits for the event. May be called from any thread.
  virtual void wait_for_event(int /*device*/, Stream /*stream*/, const StreamEvent& /*event*/) {}
  // Copies in streams of their own, from any thread: upload_in_copy_stream in Upload,
  // download_in_copy_stream in Read, begin_download in Download. begin_download does not wait:
  // `destination` (pinned, if the family has pinned memory) is complete when an event recorded
  // afterwards has passed.
  virtual void upload_in_copy_stream(int device, Address destination, const void* source,
                                     std::size_t bytes);
  virtual void download_in_copy_stream(int device, void* destination, Address source,
                                       std::size_t bytes);
  virtual void begin_download(int device, void* destination, Address source, std::size_t bytes);
  // Takes a value of a few bytes that a run has already sent to the host, without waiting for other
  // work; returns false if no run sent it. May be called from any thread.
  virtual bool take_sent(int /*device*/, void* /*destination*/, Address /*source*/,
                         std::size_t /*bytes*/) {
    return false;
  }

  // Page-locked host memory, which the device reads by itself at the full speed of the bus; nullptr
  // if the family has none or no more of it.
  virtual void* allocate_pinned(int device, std::size_t bytes);
  virtual void release_pinned(int device, void* memory) noexcept;

  // Compiles everything the plan needs to run in its stream. Throws BackendError with the
  // compiler's message.
  virtual std::unique_ptr<Executable> prepare(int device, const plan::PlanSteps& steps) = 0;

  // The number of compiled programs that the device holds.
  virtual std::size_t program_count(int device) const;
  virtual SharedBytes shared_bytes(int /*device*/) const { return {}; }
  // Frees what plans share and no plan uses any more.
  virtual void drop_unused(int /*device*/) {}

  // Waits for all streams.
  virtual void synchronize(int device) = 0;
};

// The entry point of a backend library: returns a new Backend, or nullptr with the reason in *why.
// `stamp` is the build stamp of the core; a library of another build refuses it.
using CreateBackend = Backend* (*)(const char* stamp, const char** why);
inline constexpr const char* kCreateBackendSymbol = "volta_create_backend";

}  // namespace volta
