// Datasets in memory, and datasets built from others.
#include "volta/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/host_tensor.h"
#include "volta/data/random.h"
#include "volta/error.h"
#include "volta/generator.h"

namespace volta::data {

Random Random::of_thread() {
  const Generator own;
  GeneratorState state = own.state();
  const Random random(state.seed, state.offset);
  ++state.offset;
  own.set_state(state);
  return random;
}

Dataset::~Dataset() = default;

Example Dataset::get(std::int64_t index) const {
  const std::optional<ExampleLayout> laid = layout();
  if (!laid) throw ArgumentError("Dataset: neither get() nor layout() is overridden");
  if (index < 0 || index >= size())
    throw IndexError(fmt::format("Dataset: example {} of {}", index, size()));
  const HostTensor x = host_tensor(laid->x.shape, laid->x.dtype);
  HostTensor y;
  if (laid->y) y = host_tensor(laid->y->shape, laid->y->dtype);
  gather({&index, 1}, x.memory, y.memory);
  return {x.tensor, y.tensor};
}

std::optional<ExampleLayout> Dataset::layout() const { return std::nullopt; }

void Dataset::gather(std::span<const std::int64_t>, std::byte*, std::byte*) const {
  throw ArgumentError("Dataset: layout() is overridden, gather() is not");
}

AnyDataset::AnyDataset(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {
  if (!dataset_) throw ArgumentError("data: a null pointer instead of a dataset");
}

// ---- TensorDataset.
namespace {

Tensor on_host(const char* name, const Tensor& tensor) {
  if (!tensor.defined()) throw ArgumentError(fmt::format("TensorDataset: {} is undefined", name));
  if (tensor.rank() == 0)
    throw ShapeError(fmt::format("TensorDataset: {} is a number, which has no rows", name));
  Tensor host = tensor.detach().to(Device::cpu());
  host.eval();
  return host;
}

FieldLayout field_of(const Tensor& tensor) { return {tensor.shape().removed(0), tensor.dtype()}; }

void copy_rows(const Tensor& from, std::span<const std::int64_t> indices, std::byte* to) {
  const std::size_t bytes = row_bytes(from.shape().removed(0), from.dtype());
  if (bytes == 0) return;
  const std::byte* source = from.span<std::byte>().data();
  for (const std::int64_t index : indices) {
    std::memcpy(to, source + static_cast<std::size_t>(index) * bytes, bytes);
    to += bytes;
  }
}

}  // namespace

TensorDataset::TensorDataset(const Tensor& x, const Tensor& y) : x_(on_host("x", x)) {
  size_ = x_.size(0);
  layout_.x = field_of(x_);
  if (!y.defined()) return;
  y_ = on_host("y", y);
  if (y_.size(0) != size_) {
    throw ShapeError(fmt::format("TensorDataset: x {} and y {} differ in their rows",
                                 to_string(x_.shape()), to_string(y_.shape())));
  }
  layout_.y = field_of(y_);
}

void TensorDataset::gather(std::span<const std::int64_t> indices, std::byte* x,
                           std::byte* y) const {
  copy_rows(x_, indices, x);
  if (y_.defined()) copy_rows(y_, indices, y);
}

// ---- ImageDataset.
struct ImageDataset::Storage {
  Shape shape;
  std::vector<std::uint8_t> pixels, labels;
};

ImageDataset::ImageDataset(const Shape& shape, std::vector<std::uint8_t> pixels,
                           std::vector<std::uint8_t> labels) {
  if (pixels.size() != labels.size() * static_cast<std::size_t>(shape.numel())) {
    throw ShapeError(fmt::format("ImageDataset: {} bytes are not {} images {}", pixels.size(),
                                 labels.size(), to_string(shape)));
  }
  storage_ = std::make_shared<const Storage>(Storage{shape, std::move(pixels), std::move(labels)});
}

std::int64_t ImageDataset::size() const {
  return static_cast<std::int64_t>(storage_->labels.size());
}

std::optional<ExampleLayout> ImageDataset::layout() const {
  return ExampleLayout{{storage_->shape, DType::f32}, FieldLayout{Shape{}, DType::i64}};
}

void ImageDataset::gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const {
  const auto count = static_cast<std::size_t>(storage_->shape.numel());
  auto* values = reinterpret_cast<float*>(x);
  auto* labels = reinterpret_cast<std::int64_t*>(y);
  for (const std::int64_t index : indices) {
    const auto at = static_cast<std::size_t>(index);
    const std::uint8_t* pixels = storage_->pixels.data() + at * count;
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(pixels[i]) / 255.0f;
    values += count;
    *labels++ = storage_->labels[at];
  }
}

std::span<const std::uint8_t> ImageDataset::pixels() const { return storage_->pixels; }
std::span<const std::uint8_t> ImageDataset::labels() const { return storage_->labels; }

// ---- Subset.
Subset::Subset(AnyDataset dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)) {
  const std::int64_t size = dataset_->size();
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= size)
      throw ArgumentError(fmt::format("Subset: index {} of a dataset of {}", index, size));
  }
  indices_ = std::make_shared<const std::vector<std::int64_t>>(std::move(indices));
}

std::int64_t Subset::size() const { return static_cast<std::int64_t>(indices_->size()); }

Example Subset::get(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw IndexError(fmt::format("Subset: example {} of {}", index, size()));
  return dataset_->get((*indices_)[static_cast<std::size_t>(index)]);
}

std::optional<ExampleLayout> Subset::layout() const { return dataset_->layout(); }

void Subset::gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const {
  std::vector<std::int64_t> chosen(indices.size());
  std::transform(indices.begin(), indices.end(), chosen.begin(),
                 [&](std::int64_t index) { return (*indices_)[static_cast<std::size_t>(index)]; });
  dataset_->gather(chosen, x, y);
}

std::vector<Subset> random_split(const AnyDataset& dataset, const std::vector<std::int64_t>& sizes,
                                 std::optional<std::uint64_t> seed) {
  std::int64_t left = dataset->size();
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > left) left = -1;
    if (left < 0) break;
    left -= size;
  }
  if (left != 0) {
    throw ArgumentError(fmt::format("random_split: parts of {} do not make up {} examples",
                                    fmt::join(sizes, ", "), dataset->size()));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset->size()));
  std::iota(order.begin(), order.end(), 0);
  Random random = seed ? Random(*seed) : Random::of_thread();
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  std::vector<Subset> parts;
  auto begin = order.begin();
  for (const std::int64_t size : sizes) {
    parts.emplace_back(dataset, std::vector<std::int64_t>(begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Subset> random_split(const AnyDataset& dataset, const std::vector<double>& fractions,
                                 std::optional<std::uint64_t> seed) {
  const double all = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  const bool sound = std::all_of(fractions.begin(), fractions.end(), [](double f) {
    return f >= 0 && f <= 1;  // false for NaN
  });
  if (!sound || !(std::abs(all - 1) < 1e-6)) {
    throw ArgumentError(
        fmt::format("random_split: fractions {} do not add up to 1", fmt::join(fractions, ", ")));
  }
  std::vector<std::int64_t> sizes;
  for (const double fraction : fractions)
    sizes.push_back(static_cast<std::int64_t>(fraction * static_cast<double>(dataset->size())));
  std::int64_t left =
      dataset->size() - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) ++sizes[i];
  return random_split(dataset, sizes, seed);
}

// ---- MappedDataset.
MappedDataset::MappedDataset(AnyDataset dataset, Function function)
    : dataset_(std::move(dataset)), function_(std::move(function)) {
  if (!function_) throw ArgumentError("map: no function");
}

MappedDataset map(AnyDataset dataset, MappedDataset::Function function) {
  return {std::move(dataset), std::move(function)};
}

}  // namespace volta::data
