// An opened device: its context, its in-order queues, and what all plans of the device share.
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
#include "backend/opencl/copy_lane.h"
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

  // Everything that calls the driver is run by this: an error says which device it is. After one
  // that leaves open what of the earlier work was done, the device is lost: every later call says
  // so, with the first reason.
  template <class Act>
  auto guarded(const Act& act) {
    ensure_alive();
    try {
      return act();
    } catch (const StatusError& error) {
      fail(error);
    }
  }
  // Of the lane whose work is being enqueued.
  cl_command_queue queue() const { return queue_of(lanes_[lane_]); }
  // Until it goes, what is enqueued under the device's lock is work of this lane that computes.
  class LaneScope {
   public:
    LaneScope(DeviceContext& device, std::size_t lane) : device_(device) {
      device.open_lane(lane);
      device.lane_ = lane;
    }
    ~LaneScope() { device_.lane_ = 0; }
    LaneScope(const LaneScope&) = delete;
    LaneScope& operator=(const LaneScope&) = delete;

   private:
    DeviceContext& device_;
  };
  // Before work is enqueued: goes over to the queue that takes times where a profiler records, and
  // back where none does.
  void follow_profiler() {
    if (profiling::session() != timeline_.session()) change_queue();
  }
  Timeline& timeline() { return timeline_; }
  CopyLane& uploads() { return *uploads_; }
  CopyLane& downloads() { return *downloads_; }
  CopyLane& reads() { return *reads_; }  // those that somebody waits for
  // Points of the lanes and waits for them; see Backend.
  std::shared_ptr<const Point> mark(Lane lane);
  void hold(Lane lane, const Point& point);
  void synchronize();
  void flush_profile();
  Compiler& compiler() { return *compiler_; }

  // A buffer the device really has; empty when it has no more memory.
  BufferHandle try_allocate(std::size_t bytes);
  // The same for memory a plan cannot do without; throws OutOfMemory naming `purpose`.
  BufferHandle allocate(std::size_t bytes, const char* purpose);

  // Enqueues a copy of host bytes. The bytes are taken before it returns, and small copies do not
  // wait for the device: they go through host blocks that are reused when their event has passed.
  void write(cl_mem destination, std::size_t offset, const void* source, std::size_t bytes);

  // Memory that one command uses and the next of its lane may overwrite; at least what was ever
  // reserved.
  void reserve_scratch(std::size_t bytes);
  cl_mem scratch() const { return lanes_[lane_].scratch.get(); }

  // A memory object was given back: its handle may come again as another object, so bound arguments
  // that compare equal may be stale.
  void note_release() { releases_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t releases() const { return releases_.load(std::memory_order_relaxed); }

  // Kernels enqueued so far, under the device's lock.
  void note_enqueued() { ++enqueued_; }
  std::uint64_t enqueued() const { return enqueued_; }

 private:
  void ensure_alive() const;
  [[noreturn]] void fail(const StatusError& error);

  // A lane that computes: its queue, and the one that takes times.
  struct ComputeLane {
    QueueHandle queue, timed_queue;
    BufferHandle scratch;
    std::size_t scratch_bytes = 0;
  };
  QueueHandle make_queue(cl_command_queue_properties properties) const;
  void open_lane(std::size_t number);
  void change_queue();
  cl_command_queue queue_of(const ComputeLane& lane) const {
    return (timeline_.is_recording() ? lane.timed_queue : lane.queue).get();
  }
  cl_command_queue queue_of(Lane lane);

  const DeviceInfo info_;
  const std::string name_;  // "opencl:0"
  std::atomic<bool> lost_{false};
  mutable std::mutex lost_mutex_;
  std::string lost_reason_;
  ContextHandle context_;
  std::array<ComputeLane, kComputeLanes> lanes_;  // the first, and those in use
  std::size_t lane_ = 0;
  QueueHandle first_use_queue_;  // makes drivers allocate
  std::mutex queue_mutex_;       // while a queue is used outside the device's lock, or changes
  Timeline timeline_;
  std::optional<CopyLane> uploads_, downloads_, reads_;
  std::optional<Compiler> compiler_;
  std::atomic<std::uint64_t> releases_{0};
  std::uint64_t enqueued_ = 0;
  std::mutex blocks_mutex_;
  HostBlocks blocks_;
};

}  // namespace volta::opencl
