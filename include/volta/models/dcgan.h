// DCGAN: a generator of images and a discriminator that tells them from others.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"
#include "volta/nn/sequential.h"

namespace volta::models {

struct DCGANOptions {
  std::int64_t latent = 100;
  std::int64_t channels = 1;
  std::int64_t features = 64;  // of the layer next to the image; each further one doubles them
  std::int64_t size = 28;      // of the image: 28, or a power of two from 16 on
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// Noise [n, latent] -> images [n, channels, size, size] in [-1, 1].
class VOLTA_API DCGANGenerator : public nn::Module {
 public:
  explicit DCGANGenerator(DCGANOptions options = {});
  Tensor forward(const Tensor& noise) override;
  Tensor sample(std::int64_t count);  // of new noise

  nn::Sequential main;

 private:
  DCGANOptions options_;
};

// Images -> logits [n]: large for those of the data.
class VOLTA_API DCGANDiscriminator : public nn::Module {
 public:
  explicit DCGANDiscriminator(DCGANOptions options = {});
  Tensor forward(const Tensor& images) override;

  nn::Sequential main;
};

}  // namespace volta::models
