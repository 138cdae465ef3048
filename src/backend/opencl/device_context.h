// An opened device: its context, its in-order queues, and everything that its plans share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/opencl/compiler.h"
#include "backend/opencl/copy_stream.h"
#include "backend/opencl/device_info.h"
#include "backend/opencl/handles.h"
#include "backend/opencl/host_blocks.h"
#include "backend/opencl/timeline.h"

namespace volta::opencl {

class DeviceContext {
 public:
  DeviceContext(const DeviceInfo& info, int index);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  const DeviceInfo& info() const { return info_; }

  // Runs `act`, which calls the driver; its errors name the device. After an error that leaves it
  // unknown which earlier work was done, the device is lost: every later call reports that, with
  // the first reason.
  template <class Act>
  auto guarded(const Act& act) {
    ensure_alive();
    try {
      return act();
    } catch (const StatusError& error) {
      fail(error);
    }
  }
  // The queue of the compute stream whose work is being enqueued.
  cl_command_queue queue() const { return queue_of(compute_streams_[stream_number_]); }
  // While this object lives, work enqueued under the device's lock goes to the given compute
  // stream.
  class ActiveStream {
   public:
    ActiveStream(DeviceContext& device, std::size_t stream) : device_(device) {
      device.open_stream(stream);
      device.stream_number_ = stream;
    }
    ~ActiveStream() { device_.stream_number_ = 0; }
    ActiveStream(const ActiveStream&) = delete;
    ActiveStream& operator=(const ActiveStream&) = delete;

   private:
    DeviceContext& device_;
  };
  // To be called before work is enqueued: switches to the queues that record times if a profiler is
  // active, and back if not.
  void follow_profiler() {
    if (profiling::session() != timeline_.session()) change_queue();
  }
  Timeline& timeline() { return timeline_; }
  CopyStream& uploads() { return *uploads_; }
  CopyStream& downloads() { return *downloads_; }
  CopyStream& reads() { return *reads_; }  // downloads that a caller waits for
  // Events of the streams, and waits for them; see Backend.
  std::shared_ptr<const StreamEvent> record_event(Stream stream);
  void wait_for_event(Stream stream, const StreamEvent& event);
  void synchronize();
  void flush_profile();
  Compiler& compiler() { return *compiler_; }

  // Allocates a buffer and makes sure that the device really has it; empty if it has no more
  // memory.
  BufferHandle try_allocate(std::size_t bytes);
  // Allocates memory that a plan cannot do without; throws OutOfMemory naming `purpose`.
  BufferHandle allocate(std::size_t bytes, const char* purpose);

  // Enqueues a copy of host bytes. The bytes are read before it returns. Small copies do not wait
  // for the device: they go through host blocks that are reused when their event has passed.
  void write(cl_mem destination, std::size_t offset, const void* source, std::size_t bytes);

  // Scratch memory for one command, which the stream's next command may overwrite. It is as large
  // as the largest size ever reserved.
  void reserve_scratch(std::size_t bytes);
  cl_mem scratch() const { return compute_streams_[stream_number_].scratch.get(); }

  // To be called when a memory object is released: the driver may reuse its handle for another
  // object, so a bound argument with an equal handle may be stale.
  void note_release() { releases_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t releases() const { return releases_.load(std::memory_order_relaxed); }

  // The number of kernels enqueued so far, under the device's lock.
  void note_enqueued() { ++enqueued_; }
  std::uint64_t enqueued() const { return enqueued_; }

 private:
  void ensure_alive() const;
  [[noreturn]] void fail(const StatusError& error);

  // A compute stream: its queue, and the queue that records times.
  struct ComputeStream {
    QueueHandle queue, timed_queue;
    BufferHandle scratch;
    std::size_t scratch_bytes = 0;
  };
  QueueHandle make_queue(cl_command_queue_properties properties) const;
  void open_stream(std::size_t number);
  void change_queue();
  cl_command_queue queue_of(const ComputeStream& stream) const {
    return (timeline_.is_recording() ? stream.timed_queue : stream.queue).get();
  }
  cl_command_queue queue_of(Stream stream);

  const DeviceInfo info_;
  const std::string name_;  // "opencl:0"
  std::atomic<bool> lost_{false};
  mutable std::mutex lost_mutex_;
  std::string lost_reason_;
  ContextHandle context_;
  std::array<ComputeStream, kComputeStreams> compute_streams_;  // the first, and those in use
  std::size_t stream_number_ = 0;
  QueueHandle first_use_queue_;  // for the first use of a buffer, which makes drivers allocate it
  std::mutex queue_mutex_;  // held while a queue is used outside the device's lock, or replaced
  Timeline timeline_;
  std::optional<CopyStream> uploads_, downloads_, reads_;
  std::optional<Compiler> compiler_;
  std::atomic<std::uint64_t> releases_{0};
  std::uint64_t enqueued_ = 0;
  std::mutex blocks_mutex_;
  HostBlocks blocks_;
};

}  // namespace volta::opencl
