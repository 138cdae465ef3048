// Embedding: a learned row for each integer.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

struct EmbeddingOptions {
  // The id whose row starts as 0 and gets no gradient; a negative id counts from the end.
  std::optional<std::int64_t> padding_idx = {};
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct PretrainedEmbeddingOptions {
  bool freeze = true;                            // the rows get no gradients
  std::optional<std::int64_t> padding_idx = {};  // gets no gradient; its row is not changed to 0
};

class VOLTA_API Embedding : public Module {
 public:
  // Rows start normal with mean 0 and deviation 1.
  Embedding(std::int64_t count, std::int64_t dim, EmbeddingOptions options = {});
  // Makes an embedding of the rows [count, dim] of another model, with their dtype and device.
  static Embedding from_pretrained(const Tensor& rows, PretrainedEmbeddingOptions options = {});
  Tensor forward(const Tensor& ids) override;  // [...] -> [..., dim]

  Parameter weight;  // [count, dim]

 private:
  Embedding(const Tensor& rows, std::optional<std::int64_t> padding_idx);

  std::optional<std::int64_t> padding_idx_;
};

}  // namespace volta::nn
