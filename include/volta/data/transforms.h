// Transforms: changes to examples, such as random flips, as functions of whole batches. They run on
// the host in the loader's threads and record no operations.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "volta/data/dataset.h"
#include "volta/data/random.h"
#include "volta/export.h"

namespace volta::data {

// Pass it to a DataLoader ({.transform = ...}), to map(), or call it. A DataLoader draws new random
// numbers for every example and epoch, reproducibly for any number of workers.
class VOLTA_API Transform {
 public:
  // Takes the batch and one generator per example.
  using Function = std::function<Batch(const Batch& batch, std::span<Random> random)>;
  Transform() = default;  // changes nothing
  explicit Transform(Function function) : function_(std::move(function)) {}

  Batch operator()(const Batch& batch, std::span<Random> random) const;
  // Transforms one example with random numbers from the calling thread's generator.
  Example operator()(const Example& example) const;
  explicit operator bool() const { return static_cast<bool>(function_); }

 private:
  Function function_;
};

// Applies the transforms one after the other.
VOLTA_API Transform compose(std::vector<Transform> transforms);
// Makes a transform of a function without randomness that works on examples and batches alike.
VOLTA_API Transform on_batches(std::function<Batch(const Batch&)> function);

// In the transforms below the image of an example is f32 [channels, height, width].

// (x - mean) / std with one value for all channels or one per channel.
VOLTA_API Transform normalize(std::vector<double> mean, std::vector<double> std);
// Mirrors the image horizontally or vertically with probability p.
VOLTA_API Transform random_horizontal_flip(double p = 0.5);
VOLTA_API Transform random_vertical_flip(double p = 0.5);

struct CropOptions {
  std::int64_t padding = 0;  // added on every side before the crop
  double fill = 0;
};
// Crops to this size at a random position or at the centre.
VOLTA_API Transform random_crop(std::int64_t height, std::int64_t width, CropOptions options = {});
VOLTA_API Transform center_crop(std::int64_t height, std::int64_t width);

struct AffineOptions {
  double degrees = 0;    // largest rotation, in either direction
  double translate = 0;  // largest shift as a fraction of height and width
  double scale_min = 1, scale_max = 1;
  double shear = 0;  // largest horizontal shear in degrees
  double fill = 0;   // value outside of the image
};
// A random rotation, scaling, shear and shift about the centre, with bilinear interpolation.
VOLTA_API Transform random_affine(AffineOptions options);

// Replaces integer labels of any shape by f32 rows of zeros with a single 1. Throws IndexError
// naming the example for a label outside of [0, classes).
VOLTA_API Transform one_hot(std::int64_t classes);

}  // namespace volta::data
