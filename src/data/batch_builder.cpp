// Assembling batches.
#include "data/batch_builder.h"

#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "data/host_tensor.h"
#include "volta/data/random.h"
#include "volta/error.h"
#include "volta/generator.h"
#include "volta/random.h"

namespace volta::data {
namespace {

// Throws the error in flight again, its message behind `where`; Volta's own keep their class.
[[noreturn]] void rethrow_at(const std::string& where) {
  const auto told = [&](const std::exception& error) { return where + ": " + error.what(); };
  try {
    throw;
  } catch (const ShapeError& error) {
    throw ShapeError(told(error));
  } catch (const DTypeError& error) {
    throw DTypeError(told(error));
  } catch (const DeviceError& error) {
    throw DeviceError(told(error));
  } catch (const IndexError& error) {
    throw IndexError(told(error));
  } catch (const ArgumentError& error) {
    throw ArgumentError(told(error));
  } catch (const IoError& error) {
    throw IoError(told(error));
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(told(error));
  } catch (const BackendError& error) {
    throw BackendError(told(error));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(told(error)));
  } catch (...) {
    std::throw_with_nested(Error(where + ": an exception of unknown type"));
  }
}

// Puts the thread's generator back where it was.
class GeneratorKept {
 public:
  GeneratorKept() : state_(Generator().state()) {}
  ~GeneratorKept() { Generator().set_state(state_); }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;

 private:
  GeneratorState state_;
};

Tensor stack_field(const char* name, const std::vector<Example>& examples, Tensor Example::* field,
                   std::span<const std::int64_t> indices) {
  const Tensor& first = examples.front().*field;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Tensor& tensor = examples[i].*field;
    if (tensor.defined() != first.defined()) {
      throw ArgumentError(fmt::format("{} of example {} is {}, that of example {} is not", name,
                                      indices[i], tensor.defined() ? "defined" : "undefined",
                                      indices[0]));
    }
    if (!tensor.defined()) continue;
    if (tensor.shape() != first.shape()) {
      throw ShapeError(fmt::format("{} of example {} is {}, of example {} {}", name, indices[i],
                                   to_string(tensor.shape()), indices[0],
                                   to_string(first.shape())));
    }
    if (tensor.dtype() != first.dtype()) {
      throw DTypeError(fmt::format("{} of example {} is {}, of example {} {}", name, indices[i],
                                   name_of(tensor.dtype()), indices[0], name_of(first.dtype())));
    }
  }
  if (!first.defined()) return {};
  const HostTensor result = host_tensor(
      stacked(static_cast<std::int64_t>(examples.size()), first.shape()), first.dtype());
  std::byte* to = result.memory;
  for (const Example& example : examples) {
    const Tensor host = (example.*field).detach().to(Device::cpu());
    const std::span<const std::byte> bytes = host.span<std::byte>();
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return result.tensor;
}

}  // namespace

Batch stack(const std::vector<Example>& examples, std::span<const std::int64_t> indices) {
  return {stack_field("x", examples, &Example::x, indices),
          stack_field("y", examples, &Example::y, indices)};
}

BatchBuilder::BatchBuilder(AnyDataset dataset, DataLoaderOptions options, std::uint64_t seed)
    : dataset_(std::move(dataset)), options_(std::move(options)), seed_(seed) {}

Batch BatchBuilder::gathered(const ExampleLayout& layout,
                             std::span<const std::int64_t> indices) const {
  const auto rows = static_cast<std::int64_t>(indices.size());
  const HostTensor x = host_tensor(stacked(rows, layout.x.shape), layout.x.dtype);
  HostTensor y;
  if (layout.y) y = host_tensor(stacked(rows, layout.y->shape), layout.y->dtype);
  dataset_->gather(indices, x.memory, y.memory);
  return {x.tensor, y.tensor};
}

Batch BatchBuilder::collated(std::span<const std::int64_t> indices, std::int64_t epoch) const {
  std::vector<Example> examples;
  examples.reserve(indices.size());
  for (const std::int64_t index : indices) {
    Random random(seed_, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(index));
    manual_seed(random.next());
    try {
      examples.push_back(dataset_->get(index));
    } catch (...) {
      rethrow_at(fmt::format("DataLoader: example {}", index));
    }
  }
  return options_.collate ? options_.collate(examples) : stack(examples, indices);
}

Batch BatchBuilder::transformed(const Batch& batch, std::span<const std::int64_t> indices,
                                std::int64_t epoch) const {
  std::vector<Random> random;
  random.reserve(indices.size());
  for (const std::int64_t index : indices)
    random.emplace_back(seed_, static_cast<std::uint64_t>(epoch),
                        static_cast<std::uint64_t>(index));
  return options_.transform(batch, random);
}

Batch BatchBuilder::build(std::span<const std::int64_t> indices, std::int64_t epoch) const {
  try {
    std::optional<ExampleLayout> layout;
    if (!options_.collate) layout = dataset_->layout();
    Batch batch;
    if (layout) {
      batch = gathered(*layout, indices);
    } else {
      const GeneratorKept kept;
      batch = collated(indices, epoch);
    }
    if (options_.transform) batch = transformed(batch, indices, epoch);
    for (Tensor* field : {&batch.x, &batch.y}) {
      if (!field->defined()) continue;
      *field = field->to(options_.device);
      field->eval();
    }
    return batch;
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("DataLoader: example ")) throw;
    rethrow_at(
        fmt::format("DataLoader: batch of examples {} to {}", indices.front(), indices.back()));
  } catch (...) {
    rethrow_at(
        fmt::format("DataLoader: batch of examples {} to {}", indices.front(), indices.back()));
  }
}

}  // namespace volta::data
