// Matrix products by CLBlast.
#pragma once

#include <optional>

#include "backend/opencl/launch.h"

namespace volta::opencl {

// True if $VOLTA_OPENCL_PRODUCTS asks for CLBlast, it takes the product, and that is large enough
// to be worth it.
bool takes_library(const plan::MatmulStep& step);

class MatmulLaunch final : public Launch {
 public:
  // Has CLBlast compile its kernels, so that no run meets the compiler.
  MatmulLaunch(DeviceContext& device, const plan::MatmulStep& step);

  void bind(const RunBuffers& buffers) override;
  void enqueue() override;

 private:
  DeviceContext& device_;
  plan::MatmulStep step_;
  Address a_, b_, c_;
  bool bound_ = false;
};

}  // namespace volta::opencl
