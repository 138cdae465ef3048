// VAE.
#include "volta/models/vae.h"

#include "volta/losses.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::models {

namespace {
Tensor flat(const Tensor& x) { return x.rank() > 2 ? x.flatten(1) : x; }
}  // namespace

VAE::VAE(std::int64_t inputs, VAEOptions options)
    : fc1(inputs, options.hidden, {.dtype = options.dtype, .device = options.device}),
      fc21(options.hidden, options.latent, {.dtype = options.dtype, .device = options.device}),
      fc22(options.hidden, options.latent, {.dtype = options.dtype, .device = options.device}),
      fc3(options.latent, options.hidden, {.dtype = options.dtype, .device = options.device}),
      fc4(options.hidden, inputs, {.dtype = options.dtype, .device = options.device}),
      latent_(options.latent) {
  add("fc1", fc1);
  add("fc21", fc21);
  add("fc22", fc22);
  add("fc3", fc3);
  add("fc4", fc4);
}

VAE::Code VAE::encode(const Tensor& x) {
  const Tensor h = fc1(flat(x)).relu();
  return {fc21(h), fc22(h)};
}

Tensor VAE::decode(const Tensor& z) { return fc4(fc3(z).relu()); }

VAE::Output VAE::operator()(const Tensor& x, SourceLocation place) {
  return call(place, [&]() -> Output {
    const Code code = encode(x);
    const Tensor z =
        is_training() ? code.mean + randn_like(code.mean) * (code.logvar * 0.5f).exp() : code.mean;
    const Tensor logits = decode(z);
    called({x}, {logits, code.mean, code.logvar});
    return {logits, code};
  });
}

Tensor VAE::forward(const Tensor& x) { return (*this)(x).logits.sigmoid(); }

Tensor VAE::sample(std::int64_t count) {
  const Tensor& weight = fc3.weight;
  const Tensor z = randn({count, latent_}, {.dtype = weight.dtype(), .device = weight.device()});
  return decode(z).sigmoid();
}

Tensor vae_loss(const VAE::Output& output, const Tensor& x, double beta) {
  const Tensor wrong =
      binary_cross_entropy_with_logits(output.logits, flat(x), {.reduction = Reduction::sum});
  const Tensor far =
      gaussian_kl(output.code.mean, output.code.logvar, {.reduction = Reduction::sum});
  return (wrong + far * beta) / static_cast<double>(x.size(0));
}

}  // namespace volta::models
