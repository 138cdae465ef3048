// A separate queue for the copies of one direction, beside the compute queues.
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

// Returns an event after everything enqueued so far in a queue of the device.
std::shared_ptr<const StreamEvent> record_event(DeviceContext& device, cl_command_queue queue);
// Commands enqueued from now on wait for the event.
void wait_for_event(cl_command_queue queue, const StreamEvent& recorded);

// Thread-safe.
class CopyStream {
 public:
  CopyStream(cl_context context, cl_device_id id, Device device);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  cl_command_queue queue() const { return queue_.get(); }
  // Returns when the source has been read.
  void write(cl_mem destination, std::size_t offset, const void* source, std::size_t bytes);
  void read(void* destination, cl_mem source, std::size_t offset, std::size_t bytes, bool wait);
  // Gives the profiler the records that it does not have yet, and waits for those commands.
  void flush_profile();

 private:
  // Records when the command ran, if a profiler is active.
  void note(cl_event event, profiling::Span::Kind kind, std::size_t bytes);

  const QueueHandle queue_;
  std::mutex mutex_;  // guards everything below
  HostBlocks blocks_;
  Timeline timeline_;
};

}  // namespace volta::opencl
