// A queue of its own for the copies of one direction, beside the one that computes.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "backend/opencl/handles.h"
#include "backend/opencl/host_blocks.h"
#include "backend/opencl/timeline.h"
#include "core/profiling.h"
#include "volta/device.h"

namespace volta::opencl {

class DeviceContext;

// The point after everything enqueued so far in a queue of the device.
std::shared_ptr<const Point> mark(DeviceContext& device, cl_command_queue queue);
// What is enqueued from now on waits for the point.
void hold(cl_command_queue queue, const Point& point);

// May be used by several threads.
class CopyLane {
 public:
  CopyLane(cl_context context, cl_device_id id, Device device);
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  cl_command_queue queue() const { return queue_.get(); }
  // Returns when the source has been read.
  void write(cl_mem destination, std::size_t offset, const void* source, std::size_t bytes);
  void read(void* destination, cl_mem source, std::size_t offset, std::size_t bytes, bool wait);
  // Tells the profiler what it was not told yet; waits for that.
  void flush_profile();

 private:
  // For the profiler, if one records: when the command ran.
  void note(cl_event event, profiling::Span::Kind kind, std::size_t bytes);

  const QueueHandle queue_;
  std::mutex mutex_;  // guards all below
  HostBlocks blocks_;
  Timeline timeline_;
};

}  // namespace volta::opencl
