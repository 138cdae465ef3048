// Binds and enqueues the kernels of a product. Partial sums are in the device's scratch memory,
// which the next command may overwrite; the second kernel has read them by then.
#include "backend/opencl/gemm_launch.h"

#include "core/counting.h"

namespace volta::opencl {
namespace {

// Below this many multiplications the kernel program is as fast on a GPU and sometimes needs fewer
// launches.
constexpr std::int64_t kTilesWork = std::int64_t{1} << 21;

std::optional<plan::BufferRef> ref_of(const plan::MatmulStep& step, GemmLaunch::Buffer buffer) {
  switch (buffer) {
    case GemmLaunch::Buffer::A:
      return step.a;
    case GemmLaunch::Buffer::B:
      return step.b;
    case GemmLaunch::Buffer::C:
      return step.c;
    case GemmLaunch::Buffer::Partial:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool takes_tiles(const DeviceInfo& device, const plan::MatmulStep& step) {
  return gemm_takes(step) &&
         (!device.is_gpu() || step.batch * step.m * step.n * step.k >= kTilesWork);
}

GemmLaunches product_launches(const DeviceInfo& device, const plan::MatmulStep& step) {
  return device.is_gpu() ? gemm_launches(step, gemm_cut(step), kernel::Dialect::OpenCL)
                         : gemm_strip_launches(step);
}

GemmKernelsLaunch::GemmKernelsLaunch(DeviceContext& device, const plan::MatmulStep& step,
                                     const GemmLaunches& launches)
    : device_(device), partial_bytes_(launches.partial_bytes) {
  for (const GemmLaunch& launch : launches.launches) {
    Phase phase{.kernel = device.compiler().kernel(launch.source, step.label),
                .blocks = static_cast<std::size_t>(launch.blocks),
                .threads = static_cast<std::size_t>(launch.threads),
                .buffers = {},
                .bound = {}};
    for (const GemmLaunch::Buffer buffer : launch.buffers)
      phase.buffers.push_back(ref_of(step, buffer));
    phase.bound.resize(phase.buffers.size());
    set_ints(phase.kernel.get(), static_cast<cl_uint>(2 * phase.buffers.size()), launch.ints, true);
    phases_.push_back(std::move(phase));
  }
}

void GemmKernelsLaunch::bind(const RunBuffers& buffers) {
  if (partial_bytes_ > 0) device_.reserve_scratch(partial_bytes_);
  for (Phase& phase : phases_) {
    for (std::size_t slot = 0; slot < phase.buffers.size(); ++slot) {
      if (!phase.buffers[slot]) continue;
      bind_buffer(phase.kernel.get(), slot, buffers.at(*phase.buffers[slot]), buffers.rebind,
                  phase.bound[slot]);
    }
  }
}

void GemmKernelsLaunch::enqueue(const RunBuffers&) {
  for (Phase& phase : phases_) {
    for (std::size_t slot = 0; slot < phase.buffers.size(); ++slot) {
      // Always rebound, because a later plan may have enlarged the scratch memory.
      if (!phase.buffers[slot])
        bind_buffer(phase.kernel.get(), slot, {device_.scratch(), 0}, true, phase.bound[slot]);
    }
    enqueue_blocks(device_, phase.kernel.get(), phase.blocks, phase.threads);
  }
}

}  // namespace volta::opencl
