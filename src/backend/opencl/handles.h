// Owning handles of OpenCL objects, and the one place where a status code becomes an error.
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

// "CL_OUT_OF_RESOURCES (-5)"
std::string status_name(cl_int status);

// A call of the driver failed. DeviceContext::guarded adds which device it was.
class StatusError : public BackendError {
 public:
  StatusError(cl_int status, const char* what, bool waited);
  cl_int status;
  // The call waits for the device: what failed may be any command before it.
  bool waited;
};

// Throw StatusError "<what> failed: <status>" unless the status is CL_SUCCESS.
void check(cl_int status, const char* what);
void check_wait(cl_int status, const char* what);

template <class T>
void set_arg(cl_kernel kernel, cl_uint index, const T& value) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): a memory object is passed as its handle, a pointer.
  check(clSetKernelArg(kernel, index, sizeof(T), &value), "clSetKernelArg");
}

}  // namespace volta::opencl
