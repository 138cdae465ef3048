// Transforms in host memory, image by image.
#include "volta/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "data/host_tensor.h"
#include "volta/error.h"

namespace volta::data {

Batch Transform::operator()(const Batch& batch, std::span<Random> random) const {
  return function_ ? function_(batch, random) : batch;
}

namespace {

Tensor as_batch(const Tensor& one) {
  return one.defined() ? reshaped(one.eval(), stacked(1, one.shape())) : one;
}
Tensor as_one(const Tensor& batch) {
  return batch.defined() ? reshaped(batch.eval(), batch.shape().removed(0)) : batch;
}

}  // namespace

Example Transform::operator()(const Example& example) const {
  Random random = Random::of_thread();
  const Batch changed = (*this)({as_batch(example.x), as_batch(example.y)}, {&random, 1});
  return {as_one(changed.x), as_one(changed.y)};
}

Transform compose(std::vector<Transform> transforms) {
  return Transform([transforms = std::move(transforms)](Batch batch, std::span<Random> random) {
    for (const Transform& transform : transforms) batch = transform(batch, random);
    return batch;
  });
}

Transform on_batches(std::function<Batch(const Batch&)> function) {
  if (!function) throw ArgumentError("on_batches: no function");
  return Transform([function = std::move(function)](const Batch& batch, std::span<Random>) {
    return function(batch);
  });
}

namespace {

// The sizes of one image of a batch: [channels, height, width].
struct Sizes {
  std::int64_t channels, height, width;
  std::int64_t plane() const { return height * width; }
  std::int64_t all() const { return channels * plane(); }
};

Sizes image_sizes(const char* name, const Tensor& x) {
  if (!x.defined()) throw ArgumentError(fmt::format("{}: x is undefined", name));
  if (x.rank() != 4) {
    throw ShapeError(fmt::format("{}: examples must be [channels, height, width], got {}", name,
                                 to_string(x.shape().removed(0))));
  }
  if (x.dtype() != DType::f32)
    throw DTypeError(fmt::format("{}: expected f32, got {}", name, name_of(x.dtype())));
  return {x.size(1), x.size(2), x.size(3)};
}

// Calls change(image, result, random) for each image of the batch. Results have the sizes `out`.
template <class Change>
Batch each_image(const Batch& batch, std::span<Random> random, Sizes in, Sizes out,
                 const Change& change) {
  const std::int64_t count = batch.x.size(0);
  const HostTensor result = host_tensor({count, out.channels, out.height, out.width}, DType::f32);
  const float* from = batch.x.span<float>().data();
  auto* to = reinterpret_cast<float*>(result.memory);
  for (std::int64_t i = 0; i < count && to != nullptr; ++i)
    change(from + i * in.all(), to + i * out.all(), random[static_cast<std::size_t>(i)]);
  return {result.tensor, batch.y};
}

float per_channel(const std::vector<double>& values, std::int64_t channel) {
  return static_cast<float>(values.size() == 1 ? values[0]
                                               : values[static_cast<std::size_t>(channel)]);
}

void require_probability(const char* name, double p) {
  if (!(p >= 0 && p <= 1))
    throw ArgumentError(fmt::format("{}: p must be 0 to 1, got {}", name, p));
}

Transform random_flip(const char* name, double p, bool horizontal) {
  require_probability(name, p);
  return Transform([=](const Batch& batch, std::span<Random> random) {
    const Sizes sizes = image_sizes(name, batch.x);
    const auto flip = [&](const float* from, float* to, Random& draw) {
      if (!draw.chance(static_cast<float>(p))) {
        std::copy_n(from, sizes.all(), to);
        return;
      }
      for (std::int64_t row = 0; row < sizes.channels * sizes.height; ++row) {
        if (horizontal) {
          std::reverse_copy(from + row * sizes.width, from + (row + 1) * sizes.width,
                            to + row * sizes.width);
        } else {
          const std::int64_t first = row - row % sizes.height;
          const std::int64_t mirrored = first + sizes.height - 1 - row % sizes.height;
          std::copy_n(from + mirrored * sizes.width, sizes.width, to + row * sizes.width);
        }
      }
    };
    return each_image(batch, random, sizes, sizes, flip);
  });
}

// Copies the part of an image whose upper left corner is (top, left), which may lie outside the
// image.
void crop(const float* from, Sizes in, float* to, Sizes out, std::int64_t top, std::int64_t left,
          float fill) {
  for (std::int64_t c = 0; c < out.channels; ++c) {
    for (std::int64_t y = 0; y < out.height; ++y, to += out.width) {
      const std::int64_t row = y + top;
      const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, out.width),
                         end = std::clamp<std::int64_t>(in.width - left, begin, out.width);
      if (row < 0 || row >= in.height || begin == end) {
        std::fill_n(to, out.width, fill);
        continue;
      }
      std::fill_n(to, begin, fill);
      std::copy_n(from + (c * in.height + row) * in.width + left + begin, end - begin, to + begin);
      std::fill_n(to + end, out.width - end, fill);
    }
  }
}

Sizes cropped(const char* name, Sizes in, std::int64_t height, std::int64_t width,
              std::int64_t padding) {
  if (height > in.height + 2 * padding || width > in.width + 2 * padding) {
    throw ShapeError(fmt::format("{}: {} x {} of an image of {} x {} with {} around it", name,
                                 height, width, in.height, in.width, padding));
  }
  return {in.channels, height, width};
}

void require_positive(const char* name, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1)
    throw ArgumentError(fmt::format("{}: a size of {} x {}", name, height, width));
}

// Maps positions in the result to positions in the image, both relative to the centre.
struct Matrix {
  float xx, xy, yx, yy, x0, y0;
};

Matrix drawn_matrix(const AffineOptions& options, Sizes sizes, Random& random) {
  constexpr double kRadians = 3.14159265358979323846 / 180;
  const auto both_ways = [&](double reach) { return reach * (2.0 * random.uniform() - 1); };
  const double angle = both_ways(options.degrees) * kRadians;
  const double shear = std::tan(both_ways(options.shear) * kRadians);
  const double scale =
      options.scale_min + (options.scale_max - options.scale_min) * random.uniform();
  const double dx = both_ways(options.translate) * static_cast<double>(sizes.width),
               dy = both_ways(options.translate) * static_cast<double>(sizes.height);
  // This inverts scale * rotation * shear followed by the shift.
  const double c = std::cos(angle) / scale, s = std::sin(angle) / scale;
  const double xx = c + shear * s, xy = s - shear * c;
  return {static_cast<float>(xx),
          static_cast<float>(xy),
          static_cast<float>(-s),
          static_cast<float>(c),
          static_cast<float>(-(xx * dx + xy * dy)),
          static_cast<float>(s * dx - c * dy)};
}

void resample(const float* from, float* to, Sizes sizes, const Matrix& m, float fill) {
  const float middle_x = static_cast<float>(sizes.width - 1) * 0.5f,
              middle_y = static_cast<float>(sizes.height - 1) * 0.5f;
  for (std::int64_t y = 0; y < sizes.height; ++y) {
    for (std::int64_t x = 0; x < sizes.width; ++x) {
      const float u = static_cast<float>(x) - middle_x, v = static_cast<float>(y) - middle_y;
      const float at_x = m.xx * u + m.xy * v + m.x0 + middle_x,
                  at_y = m.yx * u + m.yy * v + m.y0 + middle_y;
      // Positions far outside get `fill`. The test also keeps the conversion to integers in range.
      const bool near = at_x > -2 && at_y > -2 && at_x < static_cast<float>(sizes.width) + 1 &&
                        at_y < static_cast<float>(sizes.height) + 1;
      const float floor_x = std::floor(at_x), floor_y = std::floor(at_y);
      const float part_x = at_x - floor_x, part_y = at_y - floor_y;
      const auto left = static_cast<std::int64_t>(near ? floor_x : 0),
                 top = static_cast<std::int64_t>(near ? floor_y : 0);
      for (std::int64_t c = 0; c < sizes.channels; ++c) {
        const auto pixel = [&](std::int64_t row, std::int64_t column) {
          const bool inside = row >= 0 && row < sizes.height && column >= 0 && column < sizes.width;
          return inside ? from[c * sizes.plane() + row * sizes.width + column] : fill;
        };
        float value = fill;
        if (near) {
          const float above = pixel(top, left) * (1 - part_x) + pixel(top, left + 1) * part_x;
          const float below =
              pixel(top + 1, left) * (1 - part_x) + pixel(top + 1, left + 1) * part_x;
          value = above * (1 - part_y) + below * part_y;
        }
        to[c * sizes.plane() + y * sizes.width + x] = value;
      }
    }
  }
}

std::int64_t label_at(const Tensor& y, std::int64_t i) {
  const std::byte* at =
      y.span<std::byte>().data() + static_cast<std::size_t>(i) * size_of(y.dtype());
  switch (y.dtype()) {
    case DType::i64: {
      std::int64_t value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    case DType::i32: {
      std::int32_t value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    default:
      return static_cast<std::int64_t>(*at);
  }
}

}  // namespace

Transform normalize(std::vector<double> mean, std::vector<double> std) {
  const auto refuse = [](const std::string& why) { throw ArgumentError("normalize: " + why); };
  if (mean.empty() || std.empty()) refuse("no mean or no std");
  if (mean.size() != std.size() && mean.size() != 1 && std.size() != 1)
    refuse(fmt::format("{} means and {} stds", mean.size(), std.size()));
  for (const double value : std)
    if (!(value > 0)) refuse(fmt::format("std must be above 0, got {}", value));
  return Transform(
      [mean = std::move(mean), std = std::move(std)](const Batch& batch, std::span<Random> random) {
        const Sizes sizes = image_sizes("normalize", batch.x);
        for (const auto* values : {&mean, &std}) {
          if (values->size() != 1 && static_cast<std::int64_t>(values->size()) != sizes.channels) {
            throw ShapeError(fmt::format("normalize: {} values for {} channels", values->size(),
                                         sizes.channels));
          }
        }
        const auto change = [&](const float* from, float* to, Random&) {
          for (std::int64_t c = 0; c < sizes.channels; ++c) {
            const float less = per_channel(mean, c), by = per_channel(std, c);
            for (std::int64_t i = c * sizes.plane(); i < (c + 1) * sizes.plane(); ++i)
              to[i] = (from[i] - less) / by;
          }
        };
        return each_image(batch, random, sizes, sizes, change);
      });
}

Transform random_horizontal_flip(double p) {
  return random_flip("random_horizontal_flip", p, true);
}
Transform random_vertical_flip(double p) { return random_flip("random_vertical_flip", p, false); }

Transform random_crop(std::int64_t height, std::int64_t width, CropOptions options) {
  require_positive("random_crop", height, width);
  if (options.padding < 0 || options.padding > (std::int64_t{1} << 20))
    throw ArgumentError(fmt::format("random_crop: a padding of {}", options.padding));
  return Transform([=](const Batch& batch, std::span<Random> random) {
    const Sizes in = image_sizes("random_crop", batch.x);
    const Sizes out = cropped("random_crop", in, height, width, options.padding);
    const auto change = [&](const float* from, float* to, Random& draw) {
      const auto place = [&](std::int64_t size, std::int64_t part) {
        const auto places = static_cast<std::uint64_t>(size + 2 * options.padding - part + 1);
        return static_cast<std::int64_t>(draw.below(places)) - options.padding;
      };
      const std::int64_t top = place(in.height, height), left = place(in.width, width);
      crop(from, in, to, out, top, left, static_cast<float>(options.fill));
    };
    return each_image(batch, random, in, out, change);
  });
}

Transform center_crop(std::int64_t height, std::int64_t width) {
  require_positive("center_crop", height, width);
  return Transform([=](const Batch& batch, std::span<Random> random) {
    const Sizes in = image_sizes("center_crop", batch.x);
    const Sizes out = cropped("center_crop", in, height, width, 0);
    const auto change = [&](const float* from, float* to, Random&) {
      crop(from, in, to, out, (in.height - height) / 2, (in.width - width) / 2, 0);
    };
    return each_image(batch, random, in, out, change);
  });
}

Transform random_affine(AffineOptions options) {
  const bool sound = options.degrees >= 0 && options.translate >= 0 && options.shear >= 0 &&
                     options.shear < 90 && options.scale_min > 0 &&
                     options.scale_max >= options.scale_min && std::isfinite(options.scale_max) &&
                     std::isfinite(options.degrees) && std::isfinite(options.translate);
  if (!sound) {
    throw ArgumentError(
        "random_affine: degrees, translate and shear (below 90) must not be negative, and 0 < "
        "scale_min <= scale_max");
  }
  return Transform([=](const Batch& batch, std::span<Random> random) {
    const Sizes sizes = image_sizes("random_affine", batch.x);
    const auto change = [&](const float* from, float* to, Random& draw) {
      resample(from, to, sizes, drawn_matrix(options, sizes, draw),
               static_cast<float>(options.fill));
    };
    return each_image(batch, random, sizes, sizes, change);
  });
}

Transform one_hot(std::int64_t classes) {
  if (classes < 1) throw ArgumentError(fmt::format("one_hot: {} classes", classes));
  return Transform([=](const Batch& batch, std::span<Random>) {
    if (!batch.y.defined()) throw ArgumentError("one_hot: y is undefined");
    if (is_floating(batch.y.dtype())) {
      throw DTypeError(
          fmt::format("one_hot: labels must be integers, got {}", name_of(batch.y.dtype())));
    }
    const Shape& labels = batch.y.shape();
    std::vector<std::int64_t> sizes(labels.begin(), labels.end());
    sizes.push_back(classes);
    const HostTensor result = host_tensor(Shape(sizes, "one_hot"), DType::f32);
    auto* to = reinterpret_cast<float*>(result.memory);
    const std::int64_t count = labels.numel(), rows = labels.rank() == 0 ? 1 : labels[0];
    std::fill_n(to, count * classes, 0.0f);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t label = label_at(batch.y, i);
      if (label < 0 || label >= classes) {
        throw IndexError(fmt::format("one_hot: label {} of example {} is not in [0, {})", label,
                                     i / (count / rows), classes));
      }
      to[i * classes + label] = 1;
    }
    return Batch{batch.x, result.tensor};
  });
}

}  // namespace volta::data
