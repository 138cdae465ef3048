// Matrix products by the kernels of kernel/emit/gemm_template.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/common/gemm_launches.h"
#include "backend/opencl/launch.h"

namespace volta::opencl {

// Whether the product is large enough to be worth tiled kernels on the device; smaller ones are
// lowered to a kernel program.
bool takes_tiles(const DeviceInfo& device, const plan::MatmulStep& step);

// The tiled kernels that compute the product on the device.
GemmLaunches product_launches(const DeviceInfo& device, const plan::MatmulStep& step);

class GemmKernelsLaunch final : public Launch {
 public:
  GemmKernelsLaunch(DeviceContext& device, const plan::MatmulStep& step,
                    const GemmLaunches& launches);

  void bind(const RunBuffers& buffers) override;
  void enqueue(const RunBuffers& buffers) override;

 private:
  struct Phase {
    Kernel kernel;
    std::size_t blocks, threads;
    std::vector<std::optional<plan::BufferRef>> buffers;  // empty for partial sums
    std::vector<std::optional<Address>> bound;
  };

  DeviceContext& device_;
  std::size_t partial_bytes_;
  std::vector<Phase> phases_;
};

}  // namespace volta::opencl
