// Transforms: changes of examples, such as random flips, as functions of whole batches. They run
// on the host, in the loader's threads, and record nothing.
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

// Give it to a DataLoader ({.transform = ...}), which draws for every example and epoch anew but
// reproducibly, whatever the number of workers; or to map(), or call it.
class VOLTA_API Transform {
 public:
  // The batch and a generator for each of its examples.
  using Function = std::function<Batch(const Batch& batch, std::span<Random> random)>;
  Transform() = default;  // changes nothing
  explicit Transform(Function function) : function_(std::move(function)) {}

  Batch operator()(const Batch& batch, std::span<Random> random) const;
  // Of one example, drawn from the calling thread's generator.
  Example operator()(const Example& example) const;
  explicit operator bool() const { return static_cast<bool>(function_); }

 private:
  Function function_;
};

// One after the other.
VOLTA_API Transform compose(std::vector<Transform> transforms);
// A function of x, y and nothing random, on examples or batches alike.
VOLTA_API Transform on_batches(std::function<Batch(const Batch&)> function);

// Images below are f32 [channels, height, width], of one example.

// (x - mean) / std, by channels: one value, or one for each.
VOLTA_API Transform normalize(std::vector<double> mean, std::vector<double> std);
// Mirrored left to right, or upside down, with probability p.
VOLTA_API Transform random_horizontal_flip(double p = 0.5);
VOLTA_API Transform random_vertical_flip(double p = 0.5);

struct CropOptions {
  std::int64_t padding = 0;  // on every side, before the crop
  double fill = 0;
};
// A part of this size at a random place.
VOLTA_API Transform random_crop(std::int64_t height, std::int64_t width, CropOptions options = {});
VOLTA_API Transform center_crop(std::int64_t height, std::int64_t width);

struct AffineOptions {
  double degrees = 0;    // rotation by up to this, either way
  double translate = 0;  // shift by up to this part of height and width
  double scale_min = 1, scale_max = 1;
  double shear = 0;  // by up to so many degrees, horizontally
  double fill = 0;   // what lies outside of the image
};
// A random rotation, scaling, shear and shift about the middle; bilinear.
VOLTA_API Transform random_affine(AffineOptions options);

// Labels, integers of any shape, as f32 rows of zeros with a 1. Throws IndexError for a label
// that is not in [0, classes), naming the example of the batch.
VOLTA_API Transform one_hot(std::int64_t classes);

}  // namespace volta::data
