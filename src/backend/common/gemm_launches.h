// A matrix product as launches of the kernels in kernel/gemm_template.h, for backends that compile
// C: which tiles and how many stretches of k, as a function of the shape alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/gemm_template.h"
#include "plan/plan_steps.h"

namespace volta {

// How a product is cut: into tiles, and k into chunks whose results a second kernel adds up.
struct GemmCut {
  kernel::GemmTile tile;
  std::int64_t chunks = 1;
  friend bool operator==(const GemmCut&, const GemmCut&) = default;
};

// For a GPU. Looks at m, n, k, batch and dtype.
VOLTA_BACKEND_API GemmCut choose_gemm(const plan::MatmulStep& step);

// Cuts that are worth timing, that one first; their names tell them apart.
VOLTA_BACKEND_API std::vector<GemmCut> gemm_cuts(const plan::MatmulStep& step);
VOLTA_BACKEND_API std::string name_of(const GemmCut& cut);
// The cut that the step names; choose_gemm's, if it names none.
VOLTA_BACKEND_API GemmCut gemm_cut(const plan::MatmulStep& step);

struct GemmLaunch {
  enum class Buffer : std::uint8_t { A, B, C, Partial };
  kernel::KernelSource source;
  int threads = 0;
  std::int64_t blocks = 0;
  std::vector<Buffer> buffers;
  std::vector<std::int64_t> ints;  // 64-bit
};

struct GemmLaunches {
  std::vector<GemmLaunch> launches;  // in order; none when there is no result
  std::uint64_t partial_bytes = 0;   // memory for the results of chunks
};

// True if the kernels take the product's dtype and its blocks can be counted.
VOLTA_BACKEND_API bool gemm_takes(const plan::MatmulStep& step);

VOLTA_BACKEND_API GemmLaunches gemm_launches(const plan::MatmulStep& step, const GemmCut& cut,
                                             kernel::Dialect dialect);
// For an OpenCL device that is a CPU.
VOLTA_BACKEND_API GemmLaunches gemm_strip_launches(const plan::MatmulStep& step);

}  // namespace volta
