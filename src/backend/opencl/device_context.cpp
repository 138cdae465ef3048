// Opens a device and owns the objects that its plans share.
#include "backend/opencl/device_context.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "backend/registry.h"
#include "volta/error.h"

namespace volta::opencl {
namespace {

bool out_of_memory(cl_int status) {
  return status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_RESOURCES ||
         status == CL_OUT_OF_HOST_MEMORY || status == CL_INVALID_BUFFER_SIZE;
}

// Whether the error means that the device or its work is lost: the device says so itself, or a call
// that waited for it failed for a reason other than its own arguments (CL_INVALID_...) or the
// host's memory.
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
  compute_streams_[0].queue = make_queue(0);
  first_use_queue_ = make_queue(0);
  uploads_.emplace(context_.get(), info_.id, device);
  downloads_.emplace(context_.get(), info_.id, device);
  reads_.emplace(context_.get(), info_.id, device);
  compiler_.emplace(context_.get(), info_);
}

DeviceContext::~DeviceContext() {
  // Copies may still read the host blocks.
  for (const ComputeStream& stream : compute_streams_) {
    if (stream.queue) clFinish(stream.queue.get());
    if (stream.timed_queue) clFinish(stream.timed_queue.get());
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
    if (!lost_) lost_reason_ = error.what();  // the first error is the cause of the others
    lost_.store(true, std::memory_order_release);
  }
  ensure_alive();
  throw BackendError(fmt::format("{}: {}", name_, error.what()));
}

void DeviceContext::change_queue() {
  const std::uint64_t session = profiling::session();
  const std::lock_guard lock(queue_mutex_);
  for (ComputeStream& stream : compute_streams_) {
    if (!stream.queue) continue;
    check_wait(clFinish(queue_of(stream)), "clFinish");
    if (session != 0 && !stream.timed_queue)
      stream.timed_queue = make_queue(CL_QUEUE_PROFILING_ENABLE);
  }
  timeline_.set_session(session);
}

QueueHandle DeviceContext::make_queue(cl_command_queue_properties properties) const {
  cl_int status = CL_SUCCESS;
  QueueHandle queue(clCreateCommandQueue(context_.get(), info_.id, properties, &status));
  check(status, "clCreateCommandQueue");
  return queue;
}

void DeviceContext::open_stream(std::size_t number) {
  ComputeStream& stream = compute_streams_[number];
  if (stream.queue) return;
  const std::lock_guard lock(queue_mutex_);
  if (timeline_.is_recording()) stream.timed_queue = make_queue(CL_QUEUE_PROFILING_ENABLE);
  stream.queue = make_queue(0);
}

BufferHandle DeviceContext::try_allocate(std::size_t bytes) {
  cl_int status = CL_SUCCESS;
  BufferHandle buffer(clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, bytes, nullptr, &status));
  if (status == CL_SUCCESS) {
    // Some drivers allocate only when a buffer is first used, so it is used here, where running out
    // of memory can be handled. Waits, because any stream may use the buffer next.
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

cl_command_queue DeviceContext::queue_of(Stream stream) {
  if (stream == Stream::Upload) return uploads_->queue();
  if (stream == Stream::Download) return downloads_->queue();
  if (stream == Stream::Read) return reads_->queue();
  return queue_of(compute_streams_[number_of(stream)]);
}

std::shared_ptr<const StreamEvent> DeviceContext::record_event(Stream stream) {
  const std::lock_guard lock(queue_mutex_);
  return opencl::record_event(*this, queue_of(stream));
}

void DeviceContext::wait_for_event(Stream stream, const StreamEvent& event) {
  const std::lock_guard lock(queue_mutex_);
  opencl::wait_for_event(queue_of(stream), event);
}

void DeviceContext::synchronize() {
  std::vector<cl_command_queue> queues;
  {
    const std::lock_guard lock(queue_mutex_);
    for (std::size_t number = 0; number < kStreams; ++number) {
      if (number >= kComputeStreams || compute_streams_[number].queue)
        queues.push_back(queue_of(static_cast<Stream>(number)));
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
  blocks_.keep(std::move(block));  // the copy reads it, so it is kept before anything can fail
  if (cl_event* timed = timeline_.next_event()) {
    check(clRetainEvent(event), "clRetainEvent");
    *timed = event;
  }
}

void DeviceContext::reserve_scratch(std::size_t bytes) {
  ComputeStream& stream = compute_streams_[stream_number_];
  if (bytes <= stream.scratch_bytes) return;
  stream.scratch = BufferHandle();
  stream.scratch_bytes = 0;
  stream.scratch = allocate(bytes, "the workspace of a matrix product");
  stream.scratch_bytes = bytes;
}

}  // namespace volta::opencl
