// Embedding: a learned row for each integer.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

struct EmbeddingOptions {
  // The id whose row starts as 0 and takes no gradient; negative ones count from the end.
  std::optional<std::int64_t> padding_idx = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};
struct PretrainedEmbeddingOptions {
  bool freeze = true;                            // the rows take no gradients
  std::optional<std::int64_t> padding_idx = {};  // takes no gradient; its row is as given
};

class VOLTA_API Embedding : public Module {
 public:
  // Rows start normal with mean 0 and deviation 1.
  Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options = {});
  // With rows [count, dim] of another model, in their dtype and where they are.
  static Embedding from_pretrained(const Tensor& rows, PretrainedEmbeddingOptions options = {});
  Tensor forward(const Tensor& ids) override;  // [...] -> [..., dim]

  Parameter weight;  // [count, dim]

 private:
  Embedding(const Tensor& rows, std::optional<std::int64_t> padding_idx);

  std::optional<std::int64_t> padding_idx_;
};

}  // namespace volta::nn
