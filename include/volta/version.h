// The version of the linked library.
#pragma once

#include "volta/export.h"

namespace volta {

VOLTA_API const char* version();  // "major.minor.patch"

}  // namespace volta
