// Embedding: a learned row for each integer.
#pragma once

#include <cstdint>

#include "volta/nn/module.h"

namespace volta::nn {

struct EmbeddingOptions {
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

class VOLTA_API Embedding : public Module {
 public:
  // Rows start normal with mean 0 and deviation 1.
  Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options = {});
  Tensor forward(const Tensor& ids) override;  // [...] -> [..., dim]

  Parameter weight;  // [count, dim]
};

}  // namespace volta::nn
