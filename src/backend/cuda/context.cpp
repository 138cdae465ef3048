// The context of a device, status checks, and owners of the driver's resources.
#include "backend/cuda/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "volta/error.h"

namespace volta::cuda {
namespace {

// CUDA_ERROR_CONTAINED, which the headers of CUDA 12 do not define yet.
constexpr CUresult kContained = static_cast<CUresult>(226);

// Statuses after which nothing in the context works any more.
bool is_fault(CUresult status) {
  switch (status) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return status == kContained;
  }
}

}  // namespace

Context::Context(const Libraries& libraries, int index)
    : libraries_(libraries), name_(fmt::format("cuda:{}", index)) {
  const Driver& cu = driver();
  check(cu.cuDeviceGet(&device_, index), "finding the device");
  int major = 0, minor = 0;
  check(cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_),
        "reading the compute capability");
  check(cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_),
        "reading the compute capability");
  compute_capability_ = major * 10 + minor;
  check(cu.cuDevicePrimaryCtxRetain(&handle_, device_), "creating the context");
  try {
    const ContextScope scope(*this);
    check(cu.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "creating the stream");
  } catch (...) {
    cu.cuDevicePrimaryCtxRelease(device_);
    throw;
  }
}

Context::~Context() {
  {
    const ContextScope scope(*this, std::nothrow);
    driver().cuStreamDestroy(stream_);
  }
  driver().cuDevicePrimaryCtxRelease(device_);
}

void Context::fail(CUresult status, const char* doing) const {
  const std::string reason = describe(driver(), status);
  if (is_fault(status)) {
    mark_lost(reason);
    ensure_alive();
  }
  throw BackendError(fmt::format("{}: {} failed: {}", name_, doing, reason));
}

void Context::mark_lost(const std::string& reason) const {
  const std::lock_guard lock(lost_mutex_);
  if (lost()) return;  // the first fault is the cause of the others
  lost_reason_ = reason;
  lost_.store(true, std::memory_order_release);
}

void Context::ensure_alive() const {
  if (!lost()) [[likely]]
    return;
  const std::lock_guard lock(lost_mutex_);
  throw BackendError(fmt::format("{} is lost: {}", name_, lost_reason_));
}

std::string Context::device_name() const {
  char name[256] = {};
  check(driver().cuDeviceGetName(name, sizeof name, device_), "reading the device's name");
  return name;
}

void Context::synchronize(CUstream stream) const {
  check(driver().cuStreamSynchronize(stream), "waiting for the device");
}

void Context::add_stream(CUstream stream) const {
  const std::lock_guard lock(streams_mutex_);
  more_streams_.push_back(stream);
}

void Context::synchronize_all() const {
  std::vector<CUstream> streams;
  {
    const std::lock_guard lock(streams_mutex_);
    streams = more_streams_;
  }
  streams.push_back(stream_);
  for (CUstream stream : streams) synchronize(stream);
}

ContextScope::ContextScope(const Context& context) : context_(context) {
  context.check(enter(), "entering the context");
}

ContextScope::ContextScope(const Context& context, std::nothrow_t) noexcept : context_(context) {
  enter();
}

CUresult ContextScope::enter() noexcept {
  const Driver& cu = context_.driver();
  CUcontext current = nullptr;
  if (const CUresult status = cu.cuCtxGetCurrent(&current); status != CUDA_SUCCESS) return status;
  if (current == context_.handle()) return CUDA_SUCCESS;
  if (current == nullptr) return cu.cuCtxSetCurrent(context_.handle());
  const CUresult status = cu.cuCtxPushCurrent(context_.handle());
  pushed_ = status == CUDA_SUCCESS;
  return status;
}

ContextScope::~ContextScope() {
  CUcontext previous = nullptr;
  if (pushed_) context_.driver().cuCtxPopCurrent(&previous);
}

DeviceMemory::DeviceMemory(const Context& context, std::size_t bytes)
    : DeviceMemory(try_allocate(context, bytes)) {
  if (address_ == 0) {
    throw OutOfMemory(
        fmt::format("{}: no memory for {} bytes of a plan's own", context.name(), bytes));
  }
}

DeviceMemory DeviceMemory::try_allocate(const Context& context, std::size_t bytes) {
  const ContextScope scope(context);
  DeviceMemory memory;
  const CUresult status = context.driver().cuMemAlloc(&memory.address_, bytes);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) {
    memory.address_ = 0;
    return memory;
  }
  context.check(status, "allocating memory");
  memory.context_ = &context;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : context_(other.context_), address_(std::exchange(other.address_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this != &other) {
    reset();
    context_ = other.context_;
    address_ = std::exchange(other.address_, 0);
  }
  return *this;
}

CUdeviceptr DeviceMemory::detach() { return std::exchange(address_, 0); }

void DeviceMemory::reset() noexcept {
  if (address_ == 0) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().cuMemFree(std::exchange(address_, 0));
}

PinnedMemory::PinnedMemory(const Context& context, std::size_t bytes) : context_(&context) {
  const ContextScope scope(context);
  const Driver& cu = context.driver();
  context.check(cu.cuMemHostAlloc(&host_, bytes, CU_MEMHOSTALLOC_DEVICEMAP),
                "allocating pinned memory");
  const CUresult status = cu.cuMemHostGetDevicePointer(&device_, host_, 0);
  if (status != CUDA_SUCCESS) {
    cu.cuMemFreeHost(std::exchange(host_, nullptr));
    context.check(status, "mapping pinned memory");
  }
  std::memset(host_, 0, bytes);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : context_(other.context_),
      host_(std::exchange(other.host_, nullptr)),
      device_(std::exchange(other.device_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  if (this != &other) {
    reset();
    context_ = other.context_;
    host_ = std::exchange(other.host_, nullptr);
    device_ = std::exchange(other.device_, 0);
  }
  return *this;
}

void PinnedMemory::reset() noexcept {
  if (host_ == nullptr) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().cuMemFreeHost(std::exchange(host_, nullptr));
}

StreamHandle::StreamHandle(const Context& context) : context_(context) {
  const ContextScope scope(context);
  context.check(context.driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                "creating a stream");
}

StreamHandle::~StreamHandle() {
  const ContextScope scope(context_, std::nothrow);
  context_.driver().cuStreamDestroy(stream_);
}

Event::Event(const Context& context) : context_(&context) {
  const ContextScope scope(context);
  context.check(context.driver().cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING),
                "creating an event");
}

Event::~Event() {
  if (event_ == nullptr) return;
  const ContextScope scope(*context_, std::nothrow);
  context_->driver().cuEventDestroy(event_);
}

Event::Event(Event&& other) noexcept
    : context_(other.context_), event_(std::exchange(other.event_, nullptr)) {}

void Event::record(CUstream stream) const {
  context_->check(context_->driver().cuEventRecord(event_, stream), "recording an event");
}

void Event::wait() const {
  context_->check(context_->driver().cuEventSynchronize(event_), "waiting for the device");
}

bool Event::has_passed() const noexcept {
  return context_->driver().cuEventQuery(event_) != CUDA_ERROR_NOT_READY;
}

void Event::wait_in(CUstream stream) const {
  context_->check(context_->driver().cuStreamWaitEvent(stream, event_, CU_EVENT_WAIT_DEFAULT),
                  "waiting for another stream");
}

TimedEvent::TimedEvent(const Context& context) : context_(context) {
  context.check(context.driver().cuEventCreate(&event_, CU_EVENT_DEFAULT), "creating an event");
}

TimedEvent::~TimedEvent() { context_.driver().cuEventDestroy(event_); }

void TimedEvent::record() const {
  context_.check(context_.driver().cuEventRecord(event_, context_.stream()), "recording an event");
}

double TimedEvent::seconds_since(const TimedEvent& earlier) const {
  context_.check(context_.driver().cuEventSynchronize(event_), "waiting for the device");
  float milliseconds = 0;
  context_.check(context_.driver().cuEventElapsedTime(&milliseconds, earlier.event_, event_),
                 "timing");
  return static_cast<double>(milliseconds) * 1e-3;
}

void fill_with_numbers(const Context& context, CUdeviceptr memory, std::size_t bytes) {
  std::vector<std::uint16_t> numbers(std::min(bytes / 2, std::size_t{1} << 18));
  std::minstd_rand random(1);
  for (std::uint16_t& number : numbers) {
    const auto bits = static_cast<std::uint32_t>(random());
    number = static_cast<std::uint16_t>(0x3f00u | (bits >> 8 & 0xffu) | (bits >> 3 & 0x8000u));
  }
  std::size_t done = numbers.size() * 2;
  const Driver& driver = context.driver();
  context.check(driver.cuMemsetD8Async(memory, 0, bytes, context.stream()), "clearing memory");
  if (done == 0) return;
  context.check(driver.cuMemcpyHtoDAsync(memory, numbers.data(), done, context.stream()),
                "filling memory");
  while (done < bytes) {
    const std::size_t more = std::min(done, bytes - done);
    context.check(driver.cuMemcpyDtoDAsync(memory + done, memory, more, context.stream()),
                  "filling memory");
    done += more;
  }
  context.check(driver.cuStreamSynchronize(context.stream()), "filling memory");
}

}  // namespace volta::cuda
