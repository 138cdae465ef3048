// Super-resolution: a network doubles the size of images, better than bicubic interpolation.
#include <volta/models.h>
#include <volta/volta.h>

#include <cmath>
#include <cstdio>
#include <numbers>

#include "options.h"

using namespace volta;

namespace {

constexpr std::int64_t kSize = 48, kFactor = 2;

// Images [n, 1, 48, 48] of overlapping discs, stripes and strokes with sharp edges.
Tensor pictures(std::int64_t n, Device device) {
  const auto each = [&](double low, double high) {
    return uniform({n, 1, 1, 1}, low, high, {.device = device});
  };
  const Tensor along = arange(kSize, {.dtype = DType::f32, .device = device}) / double(kSize);
  const Tensor x = along.reshape({1, 1, 1, kSize}), y = along.reshape({1, 1, kSize, 1});
  Tensor image = each(0.1, 0.9) + (x - 0.5f) * each(-0.3, 0.3) + (y - 0.5f) * each(-0.3, 0.3);
  for (int i = 0; i < 4; ++i) {
    const Tensor dx = x - each(0, 1), dy = y - each(0, 1), r = each(0.08, 0.35);
    // Edges one pixel wide.
    const Tensor inside = ((r - (dx * dx + dy * dy).sqrt()) * 60).sigmoid();
    image = image + inside * (each(0, 1) - image);
  }
  const Tensor angle = each(0, std::numbers::pi);
  const Tensor wave = ((x * angle.cos() + y * angle.sin()) * each(15, 45) + each(0, 6)).sin();
  const Tensor where = ((each(0.2, 0.8) - x) * 60).sigmoid();
  return (image + where * (wave * 4).tanh() * each(0.05, 0.25)).clamp(0, 1);
}

// The mean of each 2x2 square, as a camera with larger pixels would see it.
Tensor smaller(const Tensor& images) { return avg_pool2d(images, kFactor); }

// Bicubic interpolation along one axis as a matrix [2 n, n] (Keys, a = -0.75, borders repeated).
Tensor bicubic(std::int64_t n, Device device) {
  const auto weight = [](double t) {
    const double a = -0.75;
    t = std::fabs(t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0.0;
  };
  std::vector<float> matrix(static_cast<std::size_t>(kFactor * n * n));
  for (std::int64_t row = 0; row < kFactor * n; ++row) {
    const double at = (static_cast<double>(row) + 0.5) / kFactor - 0.5;
    const auto first = static_cast<std::int64_t>(std::floor(at));
    for (std::int64_t k = first - 1; k <= first + 2; ++k) {
      const std::int64_t column = std::clamp<std::int64_t>(k, 0, n - 1);
      matrix[static_cast<std::size_t>(row * n + column)] +=
          static_cast<float>(weight(at - static_cast<double>(k)));
    }
  }
  return from_vector(matrix, {kFactor * n, n}, {.device = device});
}

double decibels(const Tensor& images, const Tensor& truth) {
  return -10 * std::log10(mse_loss(images.clamp(0, 1), truth).item());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "1500"}, {"batch", "16"}});
  const Device device = options.device();
  manual_seed(9);

  // The network learns the difference to bicubic interpolation.
  const Tensor matrix = bicubic(kSize / kFactor, device);
  const auto interpolated = [&](const Tensor& small) {
    return matrix.matmul(small).matmul(matrix.transpose(0, 1));
  };
  models::ESPCN model(kFactor, {.device = device});
  optim::Adam opt(model.parameters(), {.lr = 1e-3});
  const int steps = options.number("steps");
  optim::CosineLR schedule(opt, {.total_steps = steps});
  for (int step = 0; step < steps; ++step) {
    const Tensor truth = pictures(options.number("batch"), device), small = smaller(truth);
    opt.zero_grad();
    Tensor loss = mse_loss(interpolated(small) + model(small), truth);
    loss.backward();
    opt.step();
    schedule.step();
    if (step % 100 == 0) std::printf("step %4d  loss %.6f\n", step, loss.item());
  }

  NoGrad no_grad;
  const Tensor truth = pictures(64, device), small = smaller(truth);
  const Tensor plain = interpolated(small);
  const double before = decibels(plain, truth), after = decibels(plain + model(small), truth);
  std::printf("bicubic %.2f dB, network %.2f dB, gain %.2f dB\n", before, after, after - before);
}
