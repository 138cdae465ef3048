// The version of the library one links against.
#pragma once

#include "volta/export.h"

namespace volta {

VOLTA_API const char* version();  // "major.minor.patch"

}  // namespace volta
