// Datasets: examples by index. Derive from Dataset for your own data; ready-made datasets are in
// this folder.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::data {

enum class Split : std::uint8_t { train, test };

// The input x of a model and the expected output y, which may be undefined.
struct Example {
  Tensor x;
  Tensor y;
};
// Examples stacked along a new first axis.
using Batch = Example;

// Shape and dtype of x or y, the same for every example of a dataset.
struct FieldLayout {
  Shape shape;
  DType dtype = DType::f32;
};
struct ExampleLayout {
  FieldLayout x;
  std::optional<FieldLayout> y = std::nullopt;
};

// Override size() and get(). If the examples lie in an array, override layout() and gather()
// instead: batches are then copied without a Tensor for each example. Several threads call these
// functions at once. A DataLoader seeds the thread's generator for every example, so random numbers
// drawn in get() are reproducible.
class VOLTA_API Dataset {
 public:
  virtual ~Dataset();
  virtual std::int64_t size() const = 0;
  // Returns the example at 0 <= index < size() as CPU tensors. The default calls gather().
  virtual Example get(std::int64_t index) const;

  // Returns the layout for gather(), or nothing (the default) if the dataset has only get().
  virtual std::optional<ExampleLayout> layout() const;
  // Writes the examples one after the other; y is null if the layout has no y. Every index is below
  // size().
  virtual void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const;

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
};

// A shared handle to any dataset, made from a dataset by value or from a shared pointer.
class VOLTA_API AnyDataset {
 public:
  template <std::derived_from<Dataset> D>
  AnyDataset(D dataset)  // NOLINT: implicit on purpose
      : dataset_(std::make_shared<const D>(std::move(dataset))) {}
  template <std::derived_from<Dataset> D>
  AnyDataset(std::shared_ptr<D> dataset)  // NOLINT: implicit on purpose
      : AnyDataset(std::shared_ptr<const Dataset>(std::move(dataset))) {}
  AnyDataset(std::shared_ptr<const Dataset> dataset);  // NOLINT: implicit; throws if null

  const Dataset& operator*() const { return *dataset_; }
  const Dataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

// Rows of tensors: example i is x[i] and y[i]. The constructor computes the tensors and copies them
// to the CPU.
class VOLTA_API TensorDataset : public Dataset {
 public:
  explicit TensorDataset(const Tensor& x, const Tensor& y = {});
  std::int64_t size() const override { return size_; }
  std::optional<ExampleLayout> layout() const override { return layout_; }
  void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const override;

 private:
  Tensor x_, y_;
  std::int64_t size_;
  ExampleLayout layout_;
};

// Labelled images [channels, height, width] stored as bytes. Examples have x as f32 from 0 to 1 and
// y as i64. Copies share the bytes.
class VOLTA_API ImageDataset : public Dataset {
 public:
  // `pixels` holds labels.size() images of the given shape.
  ImageDataset(const Shape& shape, std::vector<std::uint8_t> pixels,
               std::vector<std::uint8_t> labels);
  std::int64_t size() const override;
  std::optional<ExampleLayout> layout() const override;
  void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const override;

  std::span<const std::uint8_t> pixels() const;  // pixels of all images
  std::span<const std::uint8_t> labels() const;

 private:
  struct Storage;
  std::shared_ptr<const Storage> storage_;
};

// Some examples of another dataset, in the given order.
class VOLTA_API Subset : public Dataset {
 public:
  // Throws ArgumentError for an index out of range.
  Subset(AnyDataset dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override;
  Example get(std::int64_t index) const override;
  std::optional<ExampleLayout> layout() const override;
  void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const override;
  const std::vector<std::int64_t>& indices() const { return *indices_; }

 private:
  AnyDataset dataset_;
  std::shared_ptr<const std::vector<std::int64_t>> indices_;
};

// Splits the examples randomly into parts of these sizes, which must add up to the whole. Without a
// seed the calling thread's generator provides one, so manual_seed() makes the split reproducible.
VOLTA_API std::vector<Subset> random_split(const AnyDataset& dataset,
                                           const std::vector<std::int64_t>& sizes,
                                           std::optional<std::uint64_t> seed = std::nullopt);
// Splits by fractions that add up to 1. The remainder from rounding goes to the first parts.
VOLTA_API std::vector<Subset> random_split(const AnyDataset& dataset,
                                           const std::vector<double>& fractions,
                                           std::optional<std::uint64_t> seed = std::nullopt);

// Applies a function to every example when it is requested. The function may be a Transform.
class VOLTA_API MappedDataset : public Dataset {
 public:
  using Function = std::function<Example(const Example&)>;
  MappedDataset(AnyDataset dataset, Function function);
  std::int64_t size() const override { return dataset_->size(); }
  Example get(std::int64_t index) const override { return function_(dataset_->get(index)); }

 private:
  AnyDataset dataset_;
  Function function_;
};
VOLTA_API MappedDataset map(AnyDataset dataset, MappedDataset::Function function);

}  // namespace volta::data
