// Memory, copies and waits of one device.
#include "backend/cuda/device.h"

#include <cstring>
#include <utility>

namespace volta::cuda {

Device::Device(const Libraries& libraries, int index)
    : context_(libraries, index),
      capture_stream_(context_),
      modules_(context_),
      matmuls_(context_),
      cudnn_(context_),
      staging_(context_),
      timeline_(context_, index) {}

CUdeviceptr Device::allocate(std::size_t bytes) {
  context_.ensure_alive();
  return DeviceMemory::try_allocate(context_, bytes).detach();
}

void Device::release(CUdeviceptr memory) {
  context_.ensure_alive();
  const ContextScope scope(context_);
  context_.synchronize();
  context_.check(context_.driver().cuMemFree(memory), "freeing memory");
}

template <class Enqueue>
void Device::timed_copy(profiling::Span::Kind kind, std::size_t bytes, const Enqueue& enqueue) {
  if (timeline_.session() == 0) return enqueue();
  Mark begin = timeline_.begin(context_.stream());
  enqueue();
  timeline_.end(std::move(begin), {.kind = kind, .bytes = bytes}, context_.stream());
}

void Device::upload(CUdeviceptr destination, const void* source, std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  // Before, should the upload fail halfway; after, should another thread's run come between.
  forget_scalars(destination, bytes);
  timed_copy(profiling::Span::Kind::Upload, bytes,
             [&] { staging_.upload(destination, source, bytes); });
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
  if (bytes <= kMaxScalarBytes && read_mirror(destination, source, bytes)) return;
  timed_copy(profiling::Span::Kind::Download, bytes,
             [&] { staging_.download(destination, source, bytes); });
}

// Takes a scalar from its mirror, if it has one. Either way the output counts as observed from now
// on.
bool Device::read_mirror(void* destination, CUdeviceptr source, std::size_t bytes) {
  std::optional<ScalarTable::Found> found;
  {
    const std::lock_guard lock(submission_);
    found = scalars_.find(source, bytes);
    if (!found) return false;
    found->output->observed = true;
    if (found->sequence == 0 || !found->output->mirror->holds(found->sequence)) return false;
  }
  const Mirror& mirror = *found->output->mirror;
  if (!mirror.wait(found->sequence)) return false;
  const std::uint64_t value = mirror.value(found->sequence);
  // Another thread may have sent runs meanwhile whose mirrors take the same place.
  const std::lock_guard lock(submission_);
  if (!mirror.holds(found->sequence)) return false;
  std::memcpy(destination, &value, bytes);
  return true;
}

void Device::copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes) {
  context_.ensure_alive();
  if (bytes == 0) return;
  const ContextScope scope(context_);
  const std::lock_guard lock(submission_);
  scalars_.written(destination, bytes);
  timed_copy(profiling::Span::Kind::Copy, bytes, [&] {
    context_.check(
        context_.driver().cuMemcpyDtoDAsync(destination, source, bytes, context_.stream()),
        "copying on the device");
  });
}

void Device::synchronize() {
  context_.ensure_alive();
  const ContextScope scope(context_);
  context_.synchronize();
}

}  // namespace volta::cuda
