// Owning handles of OpenCL objects, and the functions that turn a status code into an error.
#pragma once

#include <CL/cl.h>

#include <string>
#include <utility>

#include "volta/error.h"

namespace volta::opencl {

template <class T, cl_int (*kRelease)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_) kRelease(value_);
  }

  T get() const { return value_; }
  T release() { return std::exchange(value_, nullptr); }
  explicit operator bool() const { return value_ != nullptr; }

 private:
  T value_ = nullptr;
};

using ContextHandle = Handle<cl_context, clReleaseContext>;
using QueueHandle = Handle<cl_command_queue, clReleaseCommandQueue>;
using BufferHandle = Handle<cl_mem, clReleaseMemObject>;
using ProgramHandle = Handle<cl_program, clReleaseProgram>;
using KernelHandle = Handle<cl_kernel, clReleaseKernel>;
using EventHandle = Handle<cl_event, clReleaseEvent>;

// A status as text, such as "CL_OUT_OF_RESOURCES (-5)".
std::string status_name(cl_int status);

// A call of the driver failed. DeviceContext::guarded adds the name of the device.
class StatusError : public BackendError {
 public:
  StatusError(cl_int status, const char* what, bool waited);
  cl_int status;
  // The call waits for the device, so any earlier command may be the one that failed.
  bool waited;
};

// Both throw StatusError "<what> failed: <status>" unless the status is CL_SUCCESS; check_wait is
// for calls that wait for the device.
void check(cl_int status, const char* what);
void check_wait(cl_int status, const char* what);

template <class T>
void set_arg(cl_kernel kernel, cl_uint index, const T& value) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): a memory object is passed as its handle, a pointer.
  check(clSetKernelArg(kernel, index, sizeof(T), &value), "clSetKernelArg");
}

}  // namespace volta::opencl
