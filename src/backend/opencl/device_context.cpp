// Opens a device and keeps what its plans share.
#include "backend/opencl/device_context.h"

#include <fmt/format.h>

#include <utility>

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
  queue_ = QueueHandle(clCreateCommandQueue(context_.get(), info_.id, 0, &status));
  check(status, "clCreateCommandQueue");
  first_use_queue_ = QueueHandle(clCreateCommandQueue(context_.get(), info_.id, 0, &status));
  check(status, "clCreateCommandQueue");
  uploads_.emplace(context_.get(), info_.id, device);
  downloads_.emplace(context_.get(), info_.id, device);
  compiler_.emplace(context_.get(), info_);
  set_gemm_parameters(info_);
}

DeviceContext::~DeviceContext() {
  // Copies may still read the host blocks.
  clFinish(queue_.get());
  if (timed_queue_) clFinish(timed_queue_.get());
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
  check_wait(clFinish(queue()), "clFinish");
  if (session != 0 && !timed_queue_) {
    cl_int status = CL_SUCCESS;
    timed_queue_ = QueueHandle(
        clCreateCommandQueue(context_.get(), info_.id, CL_QUEUE_PROFILING_ENABLE, &status));
    check(status, "clCreateCommandQueue");
  }
  timeline_.set_session(session);
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
  switch (lane) {
    case Lane::Upload:
      return uploads_->queue();
    case Lane::Download:
      return downloads_->queue();
    case Lane::Compute:
      break;
  }
  return queue();
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
  for (const Lane lane : {Lane::Compute, Lane::Upload, Lane::Download})
    check_wait(clFinish(queue_of(lane)), "clFinish");
}

void DeviceContext::flush_profile() {
  timeline_.tell(true);
  uploads_->flush_profile();
  downloads_->flush_profile();
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
  if (bytes <= scratch_bytes_) return;
  scratch_ = BufferHandle();
  scratch_bytes_ = 0;
  scratch_ = allocate(bytes, "the workspace of a matrix product");
  scratch_bytes_ = bytes;
}

}  // namespace volta::opencl
