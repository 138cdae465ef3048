// The destructors live here so that each class has one vtable and typeinfo: a catch in the user's
// program then matches what libvolta and its backend libraries throw.
#include "volta/error.h"

namespace volta {

Error::~Error() = default;

const char* Error::what() const noexcept {
  return with_notes_ ? with_notes_->c_str() : std::runtime_error::what();
}

void Error::add_note(const std::string& note) {
  with_notes_ = std::make_shared<const std::string>(what() + (" " + note));
}

ShapeError::~ShapeError() = default;
DTypeError::~DTypeError() = default;
DeviceError::~DeviceError() = default;
IndexError::~IndexError() = default;
ArgumentError::~ArgumentError() = default;
NanError::~NanError() = default;
IoError::~IoError() = default;
OutOfMemory::~OutOfMemory() = default;
BackendError::~BackendError() = default;

}  // namespace volta
