// Choices made by timing candidates, for checkpoints. Not part of the API.
#pragma once

#include <map>
#include <string>

#include "volta/export.h"

namespace volta {

// The choices of this process so far, for a later process that must compute the same bits: names of
// the chosen candidates, keyed by the decisions.
VOLTA_BACKEND_API std::map<std::string, std::string> chosen_candidates();
// Makes these choices from now on, whatever was timed on this machine. Plans and kernels prepared
// before are not changed.
VOLTA_BACKEND_API void adopt_candidates(const std::map<std::string, std::string>& choices);

}  // namespace volta
