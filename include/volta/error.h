// All errors that Volta throws. The message names the operation and the caller's arguments.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "volta/export.h"

namespace volta {

class VOLTA_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~Error() override;
  const char* what() const noexcept override;
  // Adds context that only an outer caller knows to the message, for example the layer.
  void add_note(const std::string& note);

 private:
  std::shared_ptr<const std::string> with_notes_;  // shared: copies of exceptions must not throw
};

#define VOLTA_ERROR_CLASS(Name)         \
  class VOLTA_API Name : public Error { \
   public:                              \
    using Error::Error;                 \
    ~Name() override;                   \
  }

VOLTA_ERROR_CLASS(ShapeError);     // shapes, sizes or axes that do not fit the operation
VOLTA_ERROR_CLASS(DTypeError);     // a dtype that the operation or the device does not support
VOLTA_ERROR_CLASS(DeviceError);    // an absent device, or operands on different devices
VOLTA_ERROR_CLASS(IndexError);     // an index value out of range, found on the device
VOLTA_ERROR_CLASS(ArgumentError);  // any other bad argument
VOLTA_ERROR_CLASS(NanError);       // in AnomalyMode, the first operation that produced a NaN
VOLTA_ERROR_CLASS(IoError);        // a missing, unreadable or malformed file
VOLTA_ERROR_CLASS(OutOfMemory);    // device memory exhausted, even after caches were freed
VOLTA_ERROR_CLASS(BackendError);   // a driver, compiler or library failed

#undef VOLTA_ERROR_CLASS

}  // namespace volta
