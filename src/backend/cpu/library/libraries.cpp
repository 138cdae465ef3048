// Versions of the libraries that the CPU backend computes with.
#include "backend/cpu/library/libraries.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <string>

#include "backend/cpu/vector/processor.h"
#include "backend/cpu/vector/simd_table.h"

#ifdef VOLTA_HAS_ONEDNN
#include "backend/cpu/library/onednn.h"
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
  return {.name = "Highway",
          .version = fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH),
          .note = fmt::format("vectors of {}{}", simd().target,
                              instruction_limit() ? ", by VOLTA_CPU_ISA" : "")};
}

LibraryInfo thread_library() {
#ifdef VOLTA_HAS_OPENMP
  return {.name = "OpenMP", .version = std::to_string(_OPENMP)};  // a date: 201511 means 4.5
#else
  return {.name = "OpenMP", .version = {}, .note = "built without it"};
#endif
}

}  // namespace volta::cpu
