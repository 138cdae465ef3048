// The version of the library one links against.
#pragma once

#include "volta/export.h"

namespace volta {

VOLTA_API const char* version();  // "0.1.0"

}  // namespace volta
