// Datasets: examples by index. Derive from Dataset for one's own; the ready ones are in this
// folder.
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

// What goes into a model and what should come out of it; y may be undefined.
struct Example {
  Tensor x;
  Tensor y;
};
// Examples stacked along a new first axis.
using Batch = Example;

// What x or y is, the same for every example of a dataset.
struct FieldLayout {
  Shape shape;
  DType dtype = DType::f32;
};
struct ExampleLayout {
  FieldLayout x;
  std::optional<FieldLayout> y = std::nullopt;
};

// Override size(), and get(); or, where examples lie in an array, layout() and gather(): whole
// batches are then copied without a Tensor for each example. All are called by several threads at
// once. What get() draws from the thread's generator is reproducible in a DataLoader, which seeds
// it for every example handed out.
class VOLTA_API Dataset {
 public:
  virtual ~Dataset();
  virtual std::int64_t size() const = 0;
  // The example at 0 <= index < size(): CPU tensors. By default what gather() writes.
  virtual Example get(std::int64_t index) const;

  virtual std::optional<ExampleLayout> layout() const;  // by default nothing: there is only get()
  // Writes the examples one after the other; y is null where the layout has none. Every index is
  // below size().
  virtual void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const;

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
};

// Any dataset, shared: made of one by value or of a shared pointer to one.
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

// Rows of tensors: example i is x[i] and y[i]. Tensors are computed, and copied to the CPU, here.
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

// Images [channels, height, width] of bytes with a label each, handed out as f32 from 0 to 1 and
// i64. Copies share the bytes.
class VOLTA_API ImageDataset : public Dataset {
 public:
  // `pixels` has labels.size() images of the shape.
  ImageDataset(const Shape& shape, std::vector<std::uint8_t> pixels,
               std::vector<std::uint8_t> labels);
  std::int64_t size() const override;
  std::optional<ExampleLayout> layout() const override;
  void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const override;

  std::span<const std::uint8_t> pixels() const;  // of all images
  std::span<const std::uint8_t> labels() const;

 private:
  struct Storage;
  std::shared_ptr<const Storage> storage_;
};

// Some examples of another dataset, in the order given.
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

// The examples in random order, cut into parts of these sizes, which must add up to all of them.
// Without a seed it is drawn from the calling thread's generator: manual_seed() decides it.
VOLTA_API std::vector<Subset> random_split(const AnyDataset& dataset,
                                           const std::vector<std::int64_t>& sizes,
                                           std::optional<std::uint64_t> seed = std::nullopt);
// The same by fractions that add up to 1; what rounding leaves goes to the first parts.
VOLTA_API std::vector<Subset> random_split(const AnyDataset& dataset,
                                           const std::vector<double>& fractions,
                                           std::optional<std::uint64_t> seed = std::nullopt);

// A function of every example, called when the example is asked for. A Transform is one too.
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
