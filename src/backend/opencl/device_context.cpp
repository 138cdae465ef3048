// Opens a device and keeps what its plans share.
#include "backend/opencl/device_context.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backend/opencl/gemm_parameters.h"
#include "core/registry.h"
#include "volta/error.h"

namespace volta::opencl {
namespace {

bool out_of_memory(cl_int status) {
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
         status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
}

// Whether the device, or what it was doing, is gone: it says so itself, or a call that waited for
// it fails for another reason than its own arguments (CL_INVALID_...) or the host's memory.
bool loses_device(const StatusError& error) {
  switch (error.status) {
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_DEVICE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
      return true;
    case CL_OUT_OF_HOST_MEMORY:
      return false;
    default:
      constexpr cl_int kLastInvalid = -99;
      return error.waited && (error.status > CL_INVALID_VALUE || error.status < kLastInvalid);
  }
}

}  // namespace

DeviceContext::DeviceContext(const DeviceInfo& info, int index)
    : info_(info),
      name_(fmt::format("opencl:{}", index)),
      timeline_(DeviceAccess::make(DeviceType::opencl, index)) {
  const Device device = DeviceAccess::make(DeviceType::opencl, index);
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(info_.platform), 0};
  cl_int status = CL_SUCCESS;
  context_ = ContextHandle(clCreateContext(properties, 1, &info_.id, nullptr, nullptr, &status));
  check(status, "clCreateContext");
  lanes_[0].queue = make_queue(0);
  first_use_queue_ = make_queue(0);
  uploads_.emplace(context_.get(), info_.id, device);
  downloads_.emplace(context_.get(), info_.id, device);
  reads_.emplace(context_.get(), info_.id, device);
  compiler_.emplace(context_.get(), info_);
  set_gemm_parameters(info_);
}

DeviceContext::~DeviceContext() {
  // Copies may still read the host blocks.
  for (const ComputeLane& lane : lanes_) {
    if (lane.queue) clFinish(lane.queue.get());
    if (lane.timed_queue) clFinish(lane.timed_queue.get());
  }
}

void DeviceContext::ensure_alive() const {
  if (!lost_.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::lock_guard lock(lost_mutex_);
  throw BackendError(fmt::format("{} is lost: {}", name_, lost_reason_));
}

void DeviceContext::fail(const StatusError& error) {
  if (loses_device(error)) {
    const std::lock_guard lock(lost_mutex_);
    if (!lost_) lost_reason_ = error.what();  // the first is the cause of the others
    lost_.store(true, std::memory_order_release);
  }
  ensure_alive();
  throw BackendError(fmt::format("{}: {}", name_, error.what()));
}

void DeviceContext::change_queue() {
  const std::uint64_t session = profiling::session();
  const std::lock_guard lock(queue_mutex_);
  for (ComputeLane& lane : lanes_) {
    if (!lane.queue) continue;
    check_wait(clFinish(queue_of(lane)), "clFinish");
    if (session != 0 && !lane.timed_queue) lane.timed_queue = make_queue(CL_QUEUE_PROFILING_ENABLE);
  }
  timeline_.set_session(session);
}

QueueHandle DeviceContext::make_queue(cl_command_queue_properties properties) const {
  cl_int status = CL_SUCCESS;
  QueueHandle queue(clCreateCommandQueue(context_.get(), info_.id, properties, &status));
  check(status, "clCreateCommandQueue");
  return queue;
}

void DeviceContext::open_lane(std::size_t number) {
  ComputeLane& lane = lanes_[number];
  if (lane.queue) return;
  const std::lock_guard lock(queue_mutex_);
  if (timeline_.is_recording()) lane.timed_queue = make_queue(CL_QUEUE_PROFILING_ENABLE);
  lane.queue = make_queue(0);
}

BufferHandle DeviceContext::try_allocate(std::size_t bytes) {
  cl_int status = CL_SUCCESS;
  BufferHandle buffer(clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, bytes, nullptr, &status));
  if (status == CL_SUCCESS) {
    // Some drivers allocate when a buffer is first used: use it, so that exhaustion shows here. Any
    // lane may be the next to use it.
    const cl_uchar zero = 0;
    const std::lock_guard lock(queue_mutex_);
    cl_command_queue queue = first_use_queue_.get();
    status = clEnqueueFillBuffer(queue, buffer.get(), &zero, 1, 0, 1, 0, nullptr, nullptr);
    if (status == CL_SUCCESS) status = clFinish(queue);
  }
  if (out_of_memory(status)) return {};
  check(status, "clCreateBuffer");
  return buffer;
}

BufferHandle DeviceContext::allocate(std::size_t bytes, const char* purpose) {
  BufferHandle buffer = try_allocate(bytes);
  if (!buffer)
    throw OutOfMemory(
        fmt::format("{}: {} has no {} bytes for {}", name_, info_.name, bytes, purpose));
  return buffer;
}

cl_command_queue DeviceContext::queue_of(Lane lane) {
  if (lane == Lane::Upload) return uploads_->queue();
  if (lane == Lane::Download) return downloads_->queue();
  if (lane == Lane::Read) return reads_->queue();
  return queue_of(lanes_[number_of(lane)]);
}

std::shared_ptr<const Point> DeviceContext::mark(Lane lane) {
  const std::lock_guard lock(queue_mutex_);
  return opencl::mark(*this, queue_of(lane));
}

void DeviceContext::hold(Lane lane, const Point& point) {
  const std::lock_guard lock(queue_mutex_);
  opencl::hold(queue_of(lane), point);
}

void DeviceContext::synchronize() {
  std::vector<cl_command_queue> queues;
  {
    const std::lock_guard lock(queue_mutex_);
    for (std::size_t number = 0; number < kLanes; ++number) {
      if (number >= kComputeLanes || lanes_[number].queue)
        queues.push_back(queue_of(static_cast<Lane>(number)));
    }
  }
  for (cl_command_queue queue : queues) check_wait(clFinish(queue), "clFinish");
}

void DeviceContext::flush_profile() {
  timeline_.tell(true);
  uploads_->flush_profile();
  downloads_->flush_profile();
  reads_->flush_profile();
}

void DeviceContext::write(cl_mem destination, std::size_t offset, const void* source,
                          std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > HostBlocks::kBlockLimit) {
    check_wait(clEnqueueWriteBuffer(queue(), destination, CL_TRUE, offset, bytes, source, 0,
                                    nullptr, timeline_.next_event()),
               "clEnqueueWriteBuffer");
    return;
  }
  const std::lock_guard lock(blocks_mutex_);
  HostBlocks::Block block = blocks_.take(source, bytes);
  cl_event event = nullptr;
  check(clEnqueueWriteBuffer(queue(), destination, CL_FALSE, offset, bytes, block.bytes.data(), 0,
                             nullptr, &event),
        "clEnqueueWriteBuffer");
  block.event = EventHandle(event);
  blocks_.keep(std::move(block));  // the copy reads it: before anything can fail
  if (cl_event* timed = timeline_.next_event()) {
    check(clRetainEvent(event), "clRetainEvent");
    *timed = event;
  }
}

void DeviceContext::reserve_scratch(std::size_t bytes) {
  ComputeLane& lane = lanes_[lane_];
  if (bytes <= lane.scratch_bytes) return;
  lane.scratch = BufferHandle();
  lane.scratch_bytes = 0;
  lane.scratch = allocate(bytes, "the workspace of a matrix product");
  lane.scratch_bytes = bytes;
}

}  // namespace volta::opencl
