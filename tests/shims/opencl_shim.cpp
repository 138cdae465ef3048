// A library in front of the OpenCL library (LD_PRELOAD). It counts a program's calls and lets one
// of them fail; a failing call does nothing.
#include <CL/cl.h>
#include <dlfcn.h>

#include <cstdlib>

#include "shims/fault.h"

namespace {

template <class Function>
Function real(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::abort();
  return reinterpret_cast<Function>(dlsym(library, name));
}
#define VOLTA_REAL(name) static const auto forward = real<decltype(&name)>(#name)

template <class Handle>
Handle refused(cl_int status, cl_int* told) {
  if (told != nullptr) *told = status;
  return nullptr;
}

}  // namespace

extern "C" {

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t* offset, const size_t* global, const size_t* local,
                              cl_uint count, const cl_event* wait, cl_event* event) {
  VOLTA_REAL(clEnqueueNDRangeKernel);
  if (const cl_int status = fails_now("clEnqueueNDRangeKernel")) return status;
  return forward(queue, kernel, dimensions, offset, global, local, count, wait, event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t bytes, const void* source, cl_uint count, const cl_event* wait,
                            cl_event* event) {
  VOLTA_REAL(clEnqueueWriteBuffer);
  if (const cl_int status = fails_now("clEnqueueWriteBuffer", blocking != 0)) return status;
  return forward(queue, buffer, blocking, offset, bytes, source, count, wait, event);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t bytes, void* destination, cl_uint count, const cl_event* wait,
                           cl_event* event) {
  VOLTA_REAL(clEnqueueReadBuffer);
  if (const cl_int status = fails_now("clEnqueueReadBuffer", blocking != 0)) return status;
  return forward(queue, buffer, blocking, offset, bytes, destination, count, wait, event);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem destination,
                           size_t source_offset, size_t destination_offset, size_t bytes,
                           cl_uint count, const cl_event* wait, cl_event* event) {
  VOLTA_REAL(clEnqueueCopyBuffer);
  if (const cl_int status = fails_now("clEnqueueCopyBuffer")) return status;
  return forward(queue, source, destination, source_offset, destination_offset, bytes, count, wait,
                 event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern,
                           size_t pattern_bytes, size_t offset, size_t bytes, cl_uint count,
                           const cl_event* wait, cl_event* event) {
  VOLTA_REAL(clEnqueueFillBuffer);
  if (const cl_int status = fails_now("clEnqueueFillBuffer")) return status;
  return forward(queue, buffer, pattern, pattern_bytes, offset, bytes, count, wait, event);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* wait,
                                   cl_event* event) {
  VOLTA_REAL(clEnqueueMarkerWithWaitList);
  if (const cl_int status = fails_now("clEnqueueMarkerWithWaitList")) return status;
  return forward(queue, count, wait, event);
}

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count, const cl_event* wait,
                                    cl_event* event) {
  VOLTA_REAL(clEnqueueBarrierWithWaitList);
  if (const cl_int status = fails_now("clEnqueueBarrierWithWaitList")) return status;
  return forward(queue, count, wait, event);
}

cl_int clRetainEvent(cl_event event) {
  VOLTA_REAL(clRetainEvent);
  if (const cl_int status = fails_now("clRetainEvent")) return status;
  return forward(event);
}

cl_int clFinish(cl_command_queue queue) {
  VOLTA_REAL(clFinish);
  if (const cl_int status = fails_now("clFinish", true)) return status;
  return forward(queue);
}

cl_int clFlush(cl_command_queue queue) {
  VOLTA_REAL(clFlush);
  if (const cl_int status = fails_now("clFlush")) return status;
  return forward(queue);
}

cl_int clWaitForEvents(cl_uint count, const cl_event* events) {
  VOLTA_REAL(clWaitForEvents);
  if (const cl_int status = fails_now("clWaitForEvents", true)) return status;
  return forward(count, events);
}

cl_int clGetEventInfo(cl_event event, cl_event_info which, size_t bytes, void* value,
                      size_t* needed) {
  VOLTA_REAL(clGetEventInfo);
  if (const cl_int status = fails_now("clGetEventInfo")) return status;
  return forward(event, which, bytes, value, needed);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  VOLTA_REAL(clSetKernelArg);
  if (const cl_int status = fails_now("clSetKernelArg")) return status;
  return forward(kernel, index, bytes, value);
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* memory,
                      cl_int* told) {
  VOLTA_REAL(clCreateBuffer);
  if (const cl_int status = fails_now("clCreateBuffer")) return refused<cl_mem>(status, told);
  return forward(context, flags, bytes, memory, told);
}

cl_int clReleaseMemObject(cl_mem memory) {
  VOLTA_REAL(clReleaseMemObject);
  const cl_int status = fails_now("clReleaseMemObject");
  const cl_int done = forward(memory);
  return status != 0 ? status : done;
}

cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* told) {
  VOLTA_REAL(clCreateKernel);
  if (const cl_int status = fails_now("clCreateKernel")) return refused<cl_kernel>(status, told);
  return forward(program, name, told);
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** sources,
                                     const size_t* lengths, cl_int* told) {
  VOLTA_REAL(clCreateProgramWithSource);
  if (const cl_int status = fails_now("clCreateProgramWithSource"))
    return refused<cl_program>(status, told);
  return forward(context, count, sources, lengths, told);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices,
                                     const size_t* lengths, const unsigned char** binaries,
                                     cl_int* statuses, cl_int* told) {
  VOLTA_REAL(clCreateProgramWithBinary);
  if (const cl_int status = fails_now("clCreateProgramWithBinary"))
    return refused<cl_program>(status, told);
  return forward(context, count, devices, lengths, binaries, statuses, told);
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                      const char* options, void(CL_CALLBACK* notify)(cl_program, void*),
                      void* data) {
  VOLTA_REAL(clBuildProgram);
  if (const cl_int status = fails_now("clBuildProgram")) return status;
  return forward(program, count, devices, options, notify, data);
}

}  // extern "C"
