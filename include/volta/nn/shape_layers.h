// Layers that change shapes, for Sequential: Identity, Flatten, Unflatten, PixelShuffle,
// PixelUnshuffle and Upsample.
#pragma once

#include <cstdint>
#include <vector>

#include "volta/nn/module.h"
#include "volta/pooling.h"

namespace volta::nn {

class VOLTA_API Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// Merges the axes from start_dim to end_dim.
class VOLTA_API Flatten : public Module {
 public:
  explicit Flatten(std::int64_t start_dim = 1, std::int64_t end_dim = -1)
      : start_dim_(start_dim), end_dim_(end_dim) {}
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t start_dim_, end_dim_;
};

// Splits one axis into several; one of the sizes may be -1 and is then computed.
class VOLTA_API Unflatten : public Module {
 public:
  Unflatten(std::int64_t dim, std::vector<std::int64_t> sizes);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t dim_;
  std::vector<std::int64_t> sizes_;
};

// [..., c factor², h, w] to [..., c, h factor, w factor].
class VOLTA_API PixelShuffle : public Module {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t factor_;
};

// [..., c, h factor, w factor] to [..., c factor², h, w].
class VOLTA_API PixelUnshuffle : public Module {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t factor_;
};

// Resizes images [n, channels, height, width] to a size or by a factor: Upsample({.scale = 2}).
class VOLTA_API Upsample : public Module {
 public:
  explicit Upsample(InterpolateOptions options);
  Tensor forward(const Tensor& x) override;

 private:
  InterpolateOptions options_;
};

}  // namespace volta::nn
