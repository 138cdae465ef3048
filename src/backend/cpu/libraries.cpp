// Versions of what the CPU backend computes with.
#include "backend/cpu/libraries.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <cstdint>
#include <string>

#ifdef VOLTA_HAS_ONEDNN
#include "backend/cpu/onednn.h"
#endif

namespace volta::cpu {

LibraryInfo onednn_library() {
#ifdef VOLTA_HAS_ONEDNN
  const dnnl_version_t& version = *dnnl_version();
  return {.name = "oneDNN",
          .version = fmt::format("{}.{}.{}", version.major, version.minor, version.patch),
          .note = onednn_is_on() ? "" : "not used: VOLTA_ONEDNN=off"};
#else
  return {.name = "oneDNN", .version = {}, .note = "built without it"};
#endif
}

LibraryInfo vector_library() {
  // The best target this processor has is the lowest bit.
  const auto supported = static_cast<std::uint64_t>(hwy::SupportedTargets());
  const auto best = static_cast<std::int64_t>(supported & (~supported + 1));
  return {.name = "Highway",
          .version = fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH),
          .note = fmt::format("vectors of {}", hwy::TargetName(best))};
}

LibraryInfo thread_library() {
#ifdef VOLTA_HAS_OPENMP
  return {.name = "OpenMP", .version = std::to_string(_OPENMP)};  // its date: 201511 is 4.5
#else
  return {.name = "OpenMP", .version = {}, .note = "built without it"};
#endif
}

}  // namespace volta::cpu
