// The names of OpenCL's status codes.
#include "backend/opencl/handles.h"

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::opencl {
namespace {

const char* name_of_status(cl_int status) {
  switch (status) {
#define VOLTA_CL_STATUS(name) \
  case name:                  \
    return #name
    VOLTA_CL_STATUS(CL_DEVICE_NOT_FOUND);
    VOLTA_CL_STATUS(CL_DEVICE_NOT_AVAILABLE);
    VOLTA_CL_STATUS(CL_COMPILER_NOT_AVAILABLE);
    VOLTA_CL_STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    VOLTA_CL_STATUS(CL_OUT_OF_RESOURCES);
    VOLTA_CL_STATUS(CL_OUT_OF_HOST_MEMORY);
    VOLTA_CL_STATUS(CL_MEM_COPY_OVERLAP);
    VOLTA_CL_STATUS(CL_BUILD_PROGRAM_FAILURE);
    VOLTA_CL_STATUS(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    VOLTA_CL_STATUS(CL_INVALID_VALUE);
    VOLTA_CL_STATUS(CL_INVALID_DEVICE);
    VOLTA_CL_STATUS(CL_INVALID_CONTEXT);
    VOLTA_CL_STATUS(CL_INVALID_COMMAND_QUEUE);
    VOLTA_CL_STATUS(CL_INVALID_MEM_OBJECT);
    VOLTA_CL_STATUS(CL_INVALID_BINARY);
    VOLTA_CL_STATUS(CL_INVALID_BUILD_OPTIONS);
    VOLTA_CL_STATUS(CL_INVALID_PROGRAM_EXECUTABLE);
    VOLTA_CL_STATUS(CL_INVALID_KERNEL_NAME);
    VOLTA_CL_STATUS(CL_INVALID_KERNEL);
    VOLTA_CL_STATUS(CL_INVALID_ARG_INDEX);
    VOLTA_CL_STATUS(CL_INVALID_ARG_VALUE);
    VOLTA_CL_STATUS(CL_INVALID_ARG_SIZE);
    VOLTA_CL_STATUS(CL_INVALID_KERNEL_ARGS);
    VOLTA_CL_STATUS(CL_INVALID_WORK_GROUP_SIZE);
    VOLTA_CL_STATUS(CL_INVALID_WORK_ITEM_SIZE);
    VOLTA_CL_STATUS(CL_INVALID_GLOBAL_WORK_SIZE);
    VOLTA_CL_STATUS(CL_INVALID_EVENT);
    VOLTA_CL_STATUS(CL_INVALID_OPERATION);
    VOLTA_CL_STATUS(CL_INVALID_BUFFER_SIZE);
#undef VOLTA_CL_STATUS
    default:
      return "status";
  }
}

}  // namespace

std::string status_name(cl_int status) {
  return fmt::format("{} ({})", name_of_status(status), status);
}

StatusError::StatusError(cl_int the_status, const char* what, bool did_wait)
    : BackendError(fmt::format("{} failed: {}", what, status_name(the_status))),
      status(the_status),
      waited(did_wait) {}

void check(cl_int status, const char* what) {
  if (status != CL_SUCCESS) throw StatusError(status, what, false);
}

void check_wait(cl_int status, const char* what) {
  if (status != CL_SUCCESS) throw StatusError(status, what, true);
}

}  // namespace volta::opencl
