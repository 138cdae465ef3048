// Copies in separate queues, and the events that queues wait for.
#include "backend/opencl/copy_stream.h"

#include <utility>

#include "backend/opencl/device_context.h"

namespace volta::opencl {
namespace {

class OpenClStreamEvent final : public StreamEvent {
 public:
  OpenClStreamEvent(DeviceContext& device, cl_event event) : device_(device), event_(event) {}

  bool has_passed() const noexcept override {
    cl_int status = CL_COMPLETE;
    const cl_int asked = clGetEventInfo(event_.get(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                        sizeof(status), &status, nullptr);
    return asked != CL_SUCCESS || status <= CL_COMPLETE;
  }
  void wait() const override {
    cl_event event = event_.get();
    device_.guarded([&] { check_wait(clWaitForEvents(1, &event), "clWaitForEvents"); });
  }
  cl_event event() const { return event_.get(); }

 private:
  DeviceContext& device_;  // never closed while the process lives
  EventHandle event_;
};

// The queue always records times: copies are few and long enough for the cost not to matter.
QueueHandle make_queue(cl_context context, cl_device_id id) {
  cl_int status = CL_SUCCESS;
  QueueHandle queue(clCreateCommandQueue(context, id, CL_QUEUE_PROFILING_ENABLE, &status));
  check(status, "clCreateCommandQueue");
  return queue;
}

}  // namespace

std::shared_ptr<const StreamEvent> record_event(DeviceContext& device, cl_command_queue queue) {
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  auto recorded = std::make_shared<OpenClStreamEvent>(device, event);
  // Flushed, because another queue may wait for the event while nobody waits on this queue.
  check(clFlush(queue), "clFlush");
  return recorded;
}

void wait_for_event(cl_command_queue queue, const StreamEvent& recorded) {
  cl_event event = static_cast<const OpenClStreamEvent&>(recorded).event();
  check(clEnqueueBarrierWithWaitList(queue, 1, &event, nullptr), "clEnqueueBarrierWithWaitList");
}

CopyStream::CopyStream(cl_context context, cl_device_id id, Device device)
    : queue_(make_queue(context, id)), timeline_(device) {}

CopyStream::~CopyStream() {
  clFinish(queue_.get());  // copies may still read the host blocks
}

void CopyStream::note(cl_event event, profiling::Span::Kind kind, std::size_t bytes) {
  timeline_.set_session(profiling::session());
  timeline_.set_span({.kind = kind, .bytes = bytes});
  if (cl_event* timed = timeline_.next_event()) {
    check(clRetainEvent(event), "clRetainEvent");
    *timed = event;
  }
}

void CopyStream::write(cl_mem destination, std::size_t offset, const void* source,
                       std::size_t bytes) {
  cl_event event = nullptr;
  std::unique_lock guard(mutex_);
  if (bytes <= HostBlocks::kBlockLimit) {
    HostBlocks::Block block = blocks_.take(source, bytes);
    check(clEnqueueWriteBuffer(queue_.get(), destination, CL_FALSE, offset, bytes,
                               block.bytes.data(), 0, nullptr, &event),
          "clEnqueueWriteBuffer");
    block.event = EventHandle(event);
    blocks_.keep(std::move(block));
    note(event, profiling::Span::Kind::Upload, bytes);
    return;
  }
  check(clEnqueueWriteBuffer(queue_.get(), destination, CL_FALSE, offset, bytes, source, 0, nullptr,
                             &event),
        "clEnqueueWriteBuffer");
  const EventHandle written(event);
  note(event, profiling::Span::Kind::Upload, bytes);
  guard.unlock();
  check_wait(clWaitForEvents(1, &event), "clWaitForEvents");
}

void CopyStream::read(void* destination, cl_mem source, std::size_t offset, std::size_t bytes,
                      bool wait) {
  cl_event event = nullptr;
  std::unique_lock guard(mutex_);
  check(clEnqueueReadBuffer(queue_.get(), source, CL_FALSE, offset, bytes, destination, 0, nullptr,
                            &event),
        "clEnqueueReadBuffer");
  const EventHandle read(event);
  note(event, profiling::Span::Kind::Download, bytes);
  guard.unlock();
  if (wait) check_wait(clWaitForEvents(1, &event), "clWaitForEvents");
}

void CopyStream::flush_profile() {
  const std::lock_guard guard(mutex_);
  timeline_.tell(true);
}

}  // namespace volta::opencl
