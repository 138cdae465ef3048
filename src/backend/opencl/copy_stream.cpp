// Copies in queues of their own, and the points that queues wait for.
#include "backend/opencl/copy_lane.h"

#include <utility>

#include "backend/opencl/device_context.h"

namespace volta::opencl {
namespace {

class EventPoint final : public Point {
 public:
  EventPoint(DeviceContext& device, cl_event event) : device_(device), event_(event) {}

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
  DeviceContext& device_;  // open as long as the process lives
  EventHandle event_;
};

// Times are taken always: copies are few, and long enough for it.
QueueHandle make_queue(cl_context context, cl_device_id id) {
  cl_int status = CL_SUCCESS;
  QueueHandle queue(clCreateCommandQueue(context, id, CL_QUEUE_PROFILING_ENABLE, &status));
  check(status, "clCreateCommandQueue");
  return queue;
}

}  // namespace

std::shared_ptr<const Point> mark(DeviceContext& device, cl_command_queue queue) {
  cl_event event = nullptr;
  check(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  auto point = std::make_shared<EventPoint>(device, event);
  // Another queue may wait for it, and nobody waits on this one.
  check(clFlush(queue), "clFlush");
  return point;
}

void hold(cl_command_queue queue, const Point& point) {
  cl_event event = static_cast<const EventPoint&>(point).event();
  check(clEnqueueBarrierWithWaitList(queue, 1, &event, nullptr), "clEnqueueBarrierWithWaitList");
}

CopyLane::CopyLane(cl_context context, cl_device_id id, Device device)
    : queue_(make_queue(context, id)), timeline_(device) {}

CopyLane::~CopyLane() {
  clFinish(queue_.get());  // copies may still read the host blocks
}

void CopyLane::note(cl_event event, profiling::Span::Kind kind, std::size_t bytes) {
  timeline_.set_session(profiling::session());
  timeline_.set_span({.kind = kind, .bytes = bytes});
  if (cl_event* timed = timeline_.next_event()) {
    check(clRetainEvent(event), "clRetainEvent");
    *timed = event;
  }
}

void CopyLane::write(cl_mem destination, std::size_t offset, const void* source,
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

void CopyLane::read(void* destination, cl_mem source, std::size_t offset, std::size_t bytes,
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

void CopyLane::flush_profile() {
  const std::lock_guard guard(mutex_);
  timeline_.tell(true);
}

}  // namespace volta::opencl
