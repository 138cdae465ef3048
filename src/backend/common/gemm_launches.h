// A matrix product as launches of the kernels in kernel/emit/gemm_template.h, for backends that
// compile C. The tile sizes and the number of chunks of k depend on the shape alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/steps.h"
#include "kernel/emit/gemm_template.h"

namespace volta {

// How a product is split: its result into tiles, and k into chunks whose results a second kernel
// adds up.
struct GemmCut {
  kernel::GemmTile tile;
  std::int64_t chunks = 1;
  friend bool operator==(const GemmCut&, const GemmCut&) = default;
};

// The default split for a GPU, chosen from m, n, k, batch and dtype.
VOLTA_BACKEND_API GemmCut choose_gemm(const plan::MatmulStep& step);

// The splits that are worth timing, choose_gemm's first. name_of gives each a distinct name.
VOLTA_BACKEND_API std::vector<GemmCut> gemm_cuts(const plan::MatmulStep& step);
VOLTA_BACKEND_API std::string name_of(const GemmCut& cut);
// The split that the step names, or choose_gemm's if it names none.
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
  std::vector<GemmLaunch> launches;  // in order; none if the result is empty
  std::uint64_t partial_bytes = 0;   // memory for the results of chunks
};

// Whether the kernels support the product's dtype and its number of blocks fits in 32 bits.
VOLTA_BACKEND_API bool gemm_takes(const plan::MatmulStep& step);

VOLTA_BACKEND_API GemmLaunches gemm_launches(const plan::MatmulStep& step, const GemmCut& cut,
                                             kernel::Dialect dialect);
// The launches for an OpenCL device that is a CPU.
VOLTA_BACKEND_API GemmLaunches gemm_strip_launches(const plan::MatmulStep& step);

}  // namespace volta
