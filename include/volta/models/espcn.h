// ESPCN: enlarges images by convolutions at low resolution and a pixel shuffle at the end.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/conv.h"
#include "volta/nn/module.h"

namespace volta::models {

struct ESPCNOptions {
  std::int64_t channels = 1;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// [n, channels, height, width] -> [n, channels, factor height, factor width].
class VOLTA_API ESPCN : public nn::Module {
 public:
  explicit ESPCN(std::int64_t factor, ESPCNOptions options = {});
  Tensor forward(const Tensor& x) override;

  nn::Conv2d conv1, conv2, conv3, conv4;

 private:
  std::int64_t factor_;
};

}  // namespace volta::models
