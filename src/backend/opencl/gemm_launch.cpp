// Binds and enqueues the kernels of a product. Partial sums lie in the device's scratch memory,
// which the next command may overwrite: the second kernel has read them by then.
#include "backend/opencl/gemm_launch.h"

#include "core/counting.h"

namespace volta::opencl {
namespace {

// Below this many multiplications a GPU runs the kernel program as fast, and some in fewer
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
    Stage stage{.kernel = device.compiler().kernel(launch.source, step.label),
                .blocks = static_cast<std::size_t>(launch.blocks),
                .threads = static_cast<std::size_t>(launch.threads),
                .buffers = {},
                .bound = {}};
    for (const GemmLaunch::Buffer buffer : launch.buffers)
      stage.buffers.push_back(ref_of(step, buffer));
    stage.bound.resize(stage.buffers.size());
    set_ints(stage.kernel.get(), static_cast<cl_uint>(2 * stage.buffers.size()), launch.ints, true);
    stages_.push_back(std::move(stage));
  }
}

void GemmKernelsLaunch::bind(const RunBuffers& buffers) {
  if (partial_bytes_ > 0) device_.reserve_scratch(partial_bytes_);
  for (Stage& stage : stages_) {
    for (std::size_t slot = 0; slot < stage.buffers.size(); ++slot) {
      if (!stage.buffers[slot]) continue;
      bind_buffer(stage.kernel.get(), slot, buffers.at(*stage.buffers[slot]), buffers.rebind,
                  stage.bound[slot]);
    }
  }
}

void GemmKernelsLaunch::enqueue() {
  for (Stage& stage : stages_) {
    for (std::size_t slot = 0; slot < stage.buffers.size(); ++slot) {
      // A later plan may have made the scratch memory larger: it is never the same for certain.
      if (!stage.buffers[slot])
        bind_buffer(stage.kernel.get(), slot, {device_.scratch(), 0}, true, stage.bound[slot]);
    }
    enqueue_blocks(device_, stage.kernel.get(), stage.blocks, stage.threads);
  }
}

}  // namespace volta::opencl
