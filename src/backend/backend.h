// A device family. One small abstract class: memory, copies, running plans. CUDA and OpenCL live in
// shared libraries opened on first mention and reach the core through VOLTA_BACKEND_API symbols
// only.
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

#include "kernel/program.h"
#include "plan/plan_steps.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/system_info.h"

namespace volta {

// Device memory: a pointer (CPU, CUDA: base + offset) or a handle with an offset (OpenCL: base is
// cl_mem).
struct Address {
  void* base = nullptr;
  std::uint64_t offset = 0;
  void* pointer() const { return static_cast<char*>(base) + offset; }
  friend bool operator==(const Address&, const Address&) = default;
};

// A device's work is in lanes: each in order, none waiting for another unless told to. Some
// compute: those of the numbers below kComputeLanes, of which Compute is the first.
inline constexpr std::size_t kComputeLanes = 4;
// Read is for downloads that somebody waits for, Download for those that were begun.
enum class Lane : std::uint8_t { Compute = 0, Upload = kComputeLanes, Download, Read };
inline constexpr std::size_t kLanes = kComputeLanes + 3;
constexpr std::size_t number_of(Lane lane) { return static_cast<std::size_t>(lane); }
constexpr Lane compute_lane(std::size_t number) { return static_cast<Lane>(number); }

// Work of a lane that computes, by the number that Lanes gives it (backend/lanes.h); 0: none.
struct Work {
  std::uint32_t lane = 0;
  std::uint64_t number = 0;
};

// When memory was used last; 0: never.
using ComputeTimes = std::array<std::uint64_t, kComputeLanes>;
struct LaneTimes {
  ComputeTimes compute = {};  // by lane
  std::uint64_t upload = 0;
  Work written = {};  // what gave it the value that it has
};

// Those of memory that several threads know: set under the device's lock, read by any of them.
class MemoryTimes {
 public:
  LaneTimes get() const {
    LaneTimes times;
    for (std::size_t lane = 0; lane < kComputeLanes; ++lane)
      times.compute[lane] = compute_[lane].load(std::memory_order_relaxed);
    times.upload = upload();
    times.written = written();
    return times;
  }
  void set(const LaneTimes& times) {
    for (std::size_t lane = 0; lane < kComputeLanes; ++lane) note_use(lane, times.compute[lane]);
    note_upload(times.upload);
    note_write(times.written);
  }
  std::uint64_t use(std::size_t lane) const {
    return compute_[lane].load(std::memory_order_relaxed);
  }
  std::uint64_t upload() const { return upload_.load(std::memory_order_relaxed); }
  Work written() const {
    const std::uint64_t word = written_.load(std::memory_order_relaxed);
    return {static_cast<std::uint32_t>(word % kComputeLanes), word / kComputeLanes};
  }
  void note_use(std::size_t lane, std::uint64_t number) {
    compute_[lane].store(number, std::memory_order_relaxed);
  }
  void note_upload(std::uint64_t number) { upload_.store(number, std::memory_order_relaxed); }
  void note_write(Work work) {
    written_.store(work.number * kComputeLanes + work.lane, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kComputeLanes> compute_{};
  std::atomic<std::uint64_t> upload_{0};
  std::atomic<std::uint64_t> written_{0};  // lane and number in one word
};

// A moment of a lane: it has passed when everything has ended that was enqueued before it. Any
// thread may ask.
class VOLTA_BACKEND_API Point {
 public:
  virtual ~Point();
  virtual bool has_passed() const noexcept = 0;  // also when the device is lost
  virtual void wait() const = 0;                 // throws BackendError when the device is lost
};

// What a library needs for a convolution: how its weights should lie (None: it has no call for it),
// and memory to work in.
enum class ConvWeights : std::uint8_t { None, ChannelsSecond, ChannelsLast };
struct ConvSupport {
  ConvWeights weights = ConvWeights::None;
  std::uint64_t workspace_bytes = 0;
};

// How a product's numbers are multiplied.
enum class Arithmetic : std::uint8_t { Single, Tf32, Half };

// What a device can do at best, from its data sheet or its driver; 0: not known.
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

// What runs for one plan. Made once; run many times. All compilation, library planning and
// allocation happens in Backend::prepare or at the start of run, before the first launch.
class Executable {
 public:
  virtual ~Executable() = default;

  // Of the latest run: how many steps, from the first, may have written something. The caller sets
  // it to 0 before a run; if that fails, what those steps overwrite is lost, and nothing else is.
  std::size_t issued = 0;

  // How many runs may be under way; one more waits, and with it whoever wants the device's lock.
  std::uint32_t under_way = 8;

  // Enqueues the steps and returns without waiting (the CPU has finished when it returns). `arena`
  // has at least PlanSteps::arena_bytes. `args` is the argument block, copied before run returns.
  // An output may be at the address of a leaf (donation). Counts launches and library calls in
  // live_counters().
  virtual void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
                   std::span<const std::uint64_t> args) = 0;

  // The error that a run left whose kernels have ended, if any; clears it, and then no other run of
  // this executable is under way. Of several errors one is told.
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
  // Whether products of f16 or bf16 matrices, added up in f32, run as they are. If not, plans
  // convert the operands to f32 first.
  virtual bool multiplies_halves(int device, DType dtype) const;
  // Products of at most so many multiplications are sums in kernels, fused with what is around
  // them, instead of calls.
  virtual std::int64_t small_product(int /*device*/) const { return std::int64_t{1} << 16; }
  // Whether the library adds the step's epilogue (bias, ReLU) to a product of these sizes.
  virtual bool fuses(int /*device*/, const plan::MatmulStep& /*step*/) const { return false; }
  // Convolutions without a call are lowered to kernels and products.
  virtual ConvSupport convolution(int /*device*/, const plan::ConvStep& /*step*/) { return {}; }
  // The memory that a call for attention of these sizes works in (its operands' strides are not
  // known yet); nothing where there is none: plans compute scores and products.
  virtual std::optional<std::uint64_t> attention(int /*device*/,
                                                 const plan::AttentionStep& /*step*/) {
    return std::nullopt;
  }
  virtual DeviceFigures figures(int /*device*/) const { return {}; }
  // The device with its driver and compiler: what was timed under another fingerprint does not
  // count.
  virtual std::string fingerprint(int device) const { return device_name(device); }
  // The ways in which the backend's own kernels can cut a product (MatmulStep::cut), the usual one
  // first; none where there is one way only.
  virtual std::vector<std::string> product_cuts(int /*device*/,
                                                const plan::MatmulStep& /*step*/) const {
    return {};
  }
  // Bytes that nobody uses at this moment; nothing where the driver does not tell.
  virtual std::optional<std::uint64_t> free_memory(int /*device*/) { return std::nullopt; }
  // Tells the profiler (core/profiling.h) what of the device's work it was not told yet; waits for
  // that work.
  virtual void flush_profile(int /*device*/) {}
  // Whether one of the vendor's own tools watches this process; then begin_range names what the
  // thread does until the matching end_range.
  virtual bool shows_ranges() const { return false; }
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}
  // What the family computes with.
  virtual std::vector<LibraryInfo> libraries() const { return {}; }

  // Raw device memory, at least 256-byte aligned; the pool in front of it caches and splits.
  // Returns an empty Address when the device has no more.
  virtual Address allocate(int device, std::size_t bytes) = 0;
  virtual void release(int device, Address memory) = 0;

  // Copies in the first lane that computes. upload may return before the device has the bytes but
  // not before `source` may change; download waits for the bytes.
  virtual void upload(int device, Address destination, const void* source, std::size_t bytes) = 0;
  virtual void download(int device, void* destination, Address source, std::size_t bytes) = 0;
  virtual void copy(int device, Address destination, Address source, std::size_t bytes) = 0;

  // Whether there is more than one lane. Where not, plans run in the first, and the calls below are
  // those above.
  virtual bool has_lanes(int /*device*/) const { return false; }
  // The moment after everything enqueued in the lane; null where that has ended. From any thread.
  virtual std::shared_ptr<const Point> mark(int /*device*/, Lane /*lane*/) { return nullptr; }
  // What is enqueued in the lane from now on waits for the point. From any thread.
  virtual void hold(int /*device*/, Lane /*lane*/, const Point& /*point*/) {}
  // upload in the lane Upload, download in Read, from any thread. begin_download, in Download, does
  // not wait:
  // `destination`, pinned where the family has pinned memory, is complete when a point that is
  // marked afterwards has passed.
  virtual void upload_aside(int device, Address destination, const void* source, std::size_t bytes);
  virtual void download_aside(int device, void* destination, Address source, std::size_t bytes);
  virtual void begin_download(int device, void* destination, Address source, std::size_t bytes);
  // A value of a few bytes that a run sent to the host by itself, waiting for no other; false where
  // it did not. From any thread.
  virtual bool take_sent(int /*device*/, void* /*destination*/, Address /*source*/,
                         std::size_t /*bytes*/) {
    return false;
  }

  // Host memory that the device reads by itself, at the full speed of the bus; nullptr where the
  // family has no such thing or no more of it.
  virtual void* allocate_pinned(int device, std::size_t bytes);
  virtual void release_pinned(int device, void* memory) noexcept;

  // Compiles everything the plan needs to run in its lane. Throws BackendError with the compiler's
  // words.
  virtual std::unique_ptr<Executable> prepare(int device, const plan::PlanSteps& steps) = 0;

  // Compiled programs the device has now.
  virtual std::size_t program_count(int device) const;

  // Waits for all lanes.
  virtual void synchronize(int device) = 0;
};

// Entry point of a backend library: returns a new Backend, or nullptr with the reason in *why.
// `stamp` is the build stamp of the core; a library of another build refuses.
using CreateBackend = Backend* (*)(const char* stamp, const char** why);
inline constexpr const char* kCreateBackendSymbol = "volta_create_backend";

}  // namespace volta
