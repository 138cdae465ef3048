// VAE: a variational autoencoder for vectors or images of numbers between 0 and 1.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/linear.h"
#include "volta/nn/module.h"

namespace volta::models {

struct VAEOptions {
  std::int64_t hidden = 400;
  std::int64_t latent = 20;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

class VOLTA_API VAE : public nn::Module {
 public:
  explicit VAE(std::int64_t inputs, VAEOptions options = {});

  struct Code {
    Tensor mean, logvar;  // [n, latent]
  };
  struct Output {
    Tensor logits;  // logits of the reconstruction, [n, inputs]
    Code code;
  };
  // Axes after the first are flattened. The code is sampled in training and is the mean in eval
  // mode.
  Output operator()(const Tensor& x, SourceLocation place = SourceLocation::here());
  Tensor forward(const Tensor& x) override;  // the reconstruction, in [0, 1]

  Code encode(const Tensor& x);
  Tensor decode(const Tensor& z);  // returns logits
  // Generates new examples with values in [0, 1].
  Tensor sample(std::int64_t count);

  nn::Linear fc1, fc21, fc22, fc3, fc4;

 private:
  std::int64_t latent_;
};

// Binary cross-entropy of the reconstruction plus beta times the KL divergence of the codes from
// the standard normal distribution, summed over each example and averaged over the batch.
VOLTA_API Tensor vae_loss(const VAE::Output& output, const Tensor& x, double beta = 1);

}  // namespace volta::models
