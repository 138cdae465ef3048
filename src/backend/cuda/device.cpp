// Memory, copies and waits of one device.
#include "backend/cuda/device.h"

#include <cstring>
#include <utility>

namespace volta::cuda {

Device::Device(const Libraries& libraries, int index)
    : context_(libraries, index),
      capture_stream_(context_),
      upload_stream_(context_),
      download_stream_(context_),
      read_stream_(context_),
      modules_(context_),
      matmuls_(context_),
      cudnn_(context_),
      staging_(context_, context_.stream()),
      upload_staging_(context_, upload_stream_.get()),
      read_staging_(context_, read_stream_.get()),
      timeline_(context_, index) {}

CUdeviceptr Device::allocate(std::size_t bytes) {
  context_.ensure_alive();
  return DeviceMemory::try_allocate(context_, bytes).detach();
}

void Device::release(CUdeviceptr memory) {
  synchronize();  // copies may still use memory whose owners have released it
  const ContextScope scope(context_);
  context_.check(context_.driver().cuMemFree(memory), "freeing memory");
}

void Device::open_stream(std::size_t number) {
  const std::lock_guard lock(compute_streams_mutex_);
  if (number == 0 || compute_streams_[number] != nullptr) return;
  compute_streams_[number] = std::make_unique<ComputeStream>(context_);
  context_.add_stream(compute_streams_[number]->stream.get());
}

CUstream Device::stream_of(Stream stream) const {
  if (stream == Stream::Compute) return context_.stream();
  if (stream == Stream::Upload) return upload_stream_.get();
  if (stream == Stream::Download) return download_stream_.get();
  if (stream == Stream::Read) return read_stream_.get();
  return compute_streams_[number_of(stream)]->stream.get();
}

template <class Enqueue>
void Device::timed_copy(CUstream stream, profiling::Span::Kind kind, std::size_t bytes,
                        const Enqueue& enqueue) {
  if (timeline_.session() == 0) return enqueue();
  TimelineEvent begin = timeline_.begin(stream);
  enqueue();
  timeline_.end(std::move(begin), {.kind = kind, .bytes = bytes}, stream);
}

void Device::upload(CUdeviceptr destination, const void* source, std::size_t bytes) {
  upload(staging_, Stream::Compute, destination, source, bytes);
}

void Device::upload_in_copy_stream(CUdeviceptr destination, const void* source, std::size_t bytes) {
  upload(upload_staging_, Stream::Upload, destination, source, bytes);
}

void Device::upload(Staging& staging, Stream stream, CUdeviceptr destination, const void* source,
                    std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  // Called before in case the upload fails halfway, and after in case another thread's run comes in
  // between.
  forget_scalars(destination, bytes);
  timed_copy(stream_of(stream), profiling::Span::Kind::Upload, bytes,
             [&] { staging.upload(destination, source, bytes); });
  forget_scalars(destination, bytes);
}

void Device::forget_scalars(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(submission_);
  scalars_.written(address, bytes);
}

void Device::download(void* destination, CUdeviceptr source, std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  if (bytes <= kMaxScalarBytes && take_readback(destination, source, bytes)) return;
  timed_copy(context_.stream(), profiling::Span::Kind::Download, bytes,
             [&] { staging_.download(destination, source, bytes); });
}

void Device::download_in_copy_stream(void* destination, CUdeviceptr source, std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  timed_copy(read_stream_.get(), profiling::Span::Kind::Download, bytes,
             [&] { read_staging_.download(destination, source, bytes); });
}

void Device::begin_download(void* destination, CUdeviceptr source, std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  const CUstream stream = download_stream_.get();
  timed_copy(stream, profiling::Span::Kind::Download, bytes, [&] {
    context_.check(context_.driver().cuMemcpyDtoHAsync(destination, source, bytes, stream),
                   "copying from the device");
  });
}

bool Device::take_sent(void* destination, CUdeviceptr source, std::size_t bytes) {
  if (bytes == 0 || bytes > kMaxScalarBytes) return false;
  context_.ensure_alive();
  const ContextScope scope(context_);
  return take_readback(destination, source, bytes);
}

// Reads a scalar from its copy in host memory, if it has one. In any case the output counts as
// observed from now on.
bool Device::take_readback(void* destination, CUdeviceptr source, std::size_t bytes) {
  std::optional<ScalarTable::Found> found;
  {
    const std::lock_guard lock(submission_);
    found = scalars_.find(source, bytes);
    if (!found) return false;
    found->output->observed = true;
    if (found->sequence == 0 || !found->output->readback->holds(found->sequence)) return false;
  }
  const ScalarReadback& readback = *found->output->readback;
  if (!readback.wait(found->sequence)) return false;
  const std::uint64_t value = readback.value(found->sequence);
  // Runs that other threads issued meanwhile may have overwritten the entry.
  const std::lock_guard lock(submission_);
  if (!readback.holds(found->sequence)) return false;
  std::memcpy(destination, &value, bytes);
  return true;
}

void Device::copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  const std::lock_guard lock(submission_);
  scalars_.written(destination, bytes);
  timed_copy(context_.stream(), profiling::Span::Kind::Copy, bytes, [&] {
    context_.check(
        context_.driver().cuMemcpyDtoDAsync(destination, source, bytes, context_.stream()),
        "copying on the device");
  });
}

void Device::synchronize() {
  context_.ensure_alive();
  const ContextScope scope(context_);
  context_.synchronize_all();
  for (const Stream stream : {Stream::Upload, Stream::Download, Stream::Read})
    context_.synchronize(stream_of(stream));
}

std::unique_ptr<Event> Device::take_event() {
  {
    const std::lock_guard lock(events_mutex_);
    if (!spare_events_.empty()) {
      auto event = std::move(spare_events_.back());
      spare_events_.pop_back();
      return event;
    }
  }
  return std::make_unique<Event>(context_);
}

void Device::give_back(std::unique_ptr<Event> event) noexcept {
  try {
    const std::lock_guard lock(events_mutex_);
    spare_events_.push_back(std::move(event));
  } catch (...) {  // the event is destroyed instead of kept
  }
}

CudaStreamEvent::CudaStreamEvent(std::shared_ptr<Device> device, Stream stream)
    : device_(std::move(device)), event_(device_->take_event()) {
  const ContextScope scope(device_->context());
  event_->record(device_->stream_of(stream));
}

// Reusing the event is safe: streams that wait for it keep waiting for the work recorded now.
CudaStreamEvent::~CudaStreamEvent() { device_->give_back(std::move(event_)); }

bool CudaStreamEvent::has_passed() const noexcept {
  if (device_->context().lost()) return true;
  const ContextScope scope(device_->context(), std::nothrow);
  return event_->has_passed();
}

void CudaStreamEvent::wait() const {
  device_->context().ensure_alive();
  const ContextScope scope(device_->context());
  event_->wait();
}

void CudaStreamEvent::wait_in(Stream stream) const {
  const ContextScope scope(device_->context());
  event_->wait_in(device_->stream_of(stream));
}

}  // namespace volta::cuda
