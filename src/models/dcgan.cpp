// DCGAN.
#include "volta/models/dcgan.h"

#include <bit>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/nn/activation.h"
#include "volta/nn/batch_norm.h"
#include "volta/nn/conv.h"
#include "volta/nn/init.h"
#include "volta/random.h"

namespace volta::models {

namespace {

// The generator starts at `side` pixels and doubles them `doublings` times to reach the image size.
struct Stages {
  std::int64_t side;
  int doublings;
};
Stages stages_of(const DCGANOptions& options) {
  constexpr std::int64_t kMaxFeatures = 1 << 24, kMaxImage = 1 << 16;
  nn::require_range("DCGAN", "features", options.features, 1, kMaxFeatures);
  const std::int64_t size = options.size;
  if (size == 28) return {7, 2};
  if (size >= 16 && size <= kMaxImage && std::has_single_bit(static_cast<std::uint64_t>(size))) {
    return {4, std::countr_zero(static_cast<std::uint64_t>(size)) - 2};
  }
  throw ArgumentError(fmt::format("DCGAN: size must be 28 or a power of two from 16 to {}, got {}",
                                  kMaxImage, size));
}

nn::BatchNorm2d norm(std::int64_t channels, const DCGANOptions& options) {
  nn::BatchNorm2d made(channels, {.dtype = options.dtype, .device = options.device});
  nn::init::normal_(made.weight, 1, 0.02);
  return made;
}

template <class Conv>
Conv started(Conv conv) {
  nn::init::normal_(conv.weight, 0, 0.02);
  return conv;
}

nn::ConvTranspose2d up(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                       std::int64_t padding, const DCGANOptions& options) {
  return started(nn::ConvTranspose2d(in, out, kernel,
                                     {.stride = stride,
                                      .padding = padding,
                                      .bias = false,
                                      .dtype = options.dtype,
                                      .device = options.device}));
}

nn::Conv2d down(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                std::int64_t padding, const DCGANOptions& options) {
  return started(nn::Conv2d(in, out, kernel,
                            {.stride = stride,
                             .padding = padding,
                             .bias = false,
                             .dtype = options.dtype,
                             .device = options.device}));
}

}  // namespace

DCGANGenerator::DCGANGenerator(DCGANOptions options) : options_(options) {
  const Stages stages = stages_of(options);
  std::int64_t features = options.features << (stages.doublings - 1);
  main.append(up(options.latent, features, stages.side, 1, 0, options))
      .append(norm(features, options))
      .append(nn::ReLU());
  for (int i = 1; i < stages.doublings; ++i, features /= 2) {
    main.append(up(features, features / 2, 4, 2, 1, options))
        .append(norm(features / 2, options))
        .append(nn::ReLU());
  }
  main.append(up(features, options.channels, 4, 2, 1, options)).append(nn::Tanh());
  add("main", main);
}

Tensor DCGANGenerator::forward(const Tensor& noise) {
  return main(noise.reshape({noise.size(0), options_.latent, 1, 1}));
}

Tensor DCGANGenerator::sample(std::int64_t count) {
  const Tensor first = parameters().front();
  return (*this)(
      randn({count, options_.latent}, {.dtype = first.dtype(), .device = first.device()}));
}

DCGANDiscriminator::DCGANDiscriminator(DCGANOptions options) {
  const Stages stages = stages_of(options);
  std::int64_t features = options.features;
  main.append(down(options.channels, features, 4, 2, 1, options)).append(nn::LeakyReLU(0.2));
  for (int i = 1; i < stages.doublings; ++i, features *= 2) {
    main.append(down(features, features * 2, 4, 2, 1, options))
        .append(norm(features * 2, options))
        .append(nn::LeakyReLU(0.2));
  }
  main.append(down(features, 1, stages.side, 1, 0, options));
  add("main", main);
}

Tensor DCGANDiscriminator::forward(const Tensor& images) { return main(images).flatten(); }

}  // namespace volta::models
