// DCGAN: a generator of images, and a discriminator that tells them from real ones.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"
#include "volta/nn/sequential.h"

namespace volta::models {

struct DCGANOptions {
  std::int64_t latent = 100;
  std::int64_t channels = 1;
  // Channels of the layer next to the image; they double with each further layer.
  std::int64_t features = 64;
  std::int64_t size = 28;  // side of the image: 28, or a power of two from 16 to 65536
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Noise [n, latent] -> images [n, channels, size, size] in [-1, 1].
class VOLTA_API DCGANGenerator : public nn::Module {
 public:
  explicit DCGANGenerator(DCGANOptions options = {});
  Tensor forward(const Tensor& noise) override;
  Tensor sample(std::int64_t count);  // from new noise

  nn::Sequential main;

 private:
  DCGANOptions options_;
};

// Maps images to logits [n], which are large for real images.
class VOLTA_API DCGANDiscriminator : public nn::Module {
 public:
  explicit DCGANDiscriminator(DCGANOptions options = {});
  Tensor forward(const Tensor& images) override;

  nn::Sequential main;
};

}  // namespace volta::models
