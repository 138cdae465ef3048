// Matrix products by the kernels of kernel/gemm_template.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/gemm_launches.h"
#include "backend/opencl/launch.h"

namespace volta::opencl {

// True if the product is large enough to be worth tiles on the device; others are lowered to a
// kernel program.
bool takes_tiles(const DeviceInfo& device, const plan::MatmulStep& step);

// What runs for the product on a device.
GemmLaunches product_launches(const DeviceInfo& device, const plan::MatmulStep& step);

class GemmKernelsLaunch final : public Launch {
 public:
  GemmKernelsLaunch(DeviceContext& device, const plan::MatmulStep& step,
                    const GemmLaunches& launches);

  void bind(const RunBuffers& buffers) override;
  void enqueue() override;

 private:
  struct Stage {
    Kernel kernel;
    std::size_t blocks, threads;
    std::vector<std::optional<plan::BufferRef>> buffers;  // none: partial sums
    std::vector<std::optional<Address>> bound;
  };

  DeviceContext& device_;
  std::size_t partial_bytes_;
  std::vector<Stage> stages_;
};

}  // namespace volta::opencl
