// Assembles batches.
#include "data/batch_builder.h"

#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>

#include <fmt/format.h>

#include "data/host_tensor.h"
#include "volta/data/random.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/generator.h"
#include "volta/random.h"
#include "volta/transfers.h"

namespace volta::data {
namespace {

// Rethrows `error` with `where` before its message if its type is exactly E. A derived class may
// carry more than a message, so it is left alone.
template <class E>
void rethrow_if(const std::exception& error, const std::string& where) {
  if (typeid(error) == typeid(E)) throw E(where + ": " + error.what());
}

// Rethrows the current exception: Volta's own with `where`, all others inside a ForeignError.
[[noreturn]] void rethrow_at(const std::string& where) {
  try {
    throw;
  } catch (const std::exception& error) {
    rethrow_if<Error>(error, where);
    rethrow_if<ShapeError>(error, where);
    rethrow_if<DTypeError>(error, where);
    rethrow_if<DeviceError>(error, where);
    rethrow_if<IndexError>(error, where);
    rethrow_if<ArgumentError>(error, where);
    rethrow_if<NanError>(error, where);
    rethrow_if<IoError>(error, where);
    rethrow_if<OutOfMemory>(error, where);
    rethrow_if<BackendError>(error, where);
    throw ForeignError{std::current_exception(), where + ": " + error.what()};
  } catch (...) {
    throw ForeignError{std::current_exception(), where + ": an exception of unknown type"};
  }
}

// Restores the state of the thread's generator at the end of the scope.
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
  const Device reader = options_.transform ? Device::cpu() : options_.device;
  const HostTensor x = host_tensor(stacked(rows, layout.x.shape), layout.x.dtype, reader);
  HostTensor y;
  if (layout.y) y = host_tensor(stacked(rows, layout.y->shape), layout.y->dtype, reader);
  dataset_->gather(indices, x.memory, y.memory);
  return {x.tensor, y.tensor};
}

// The random numbers of an example also depend on its position in the epoch, so an example that a
// sampler chose twice is augmented in two different ways.
Random BatchBuilder::random_of(const BatchPlace& place, std::size_t i) const {
  return {seed_, static_cast<std::uint64_t>(place.epoch),
          static_cast<std::uint64_t>(place.indices[i]),
          static_cast<std::uint64_t>(place.first) + i};
}

Batch BatchBuilder::collated(const BatchPlace& place, std::int64_t& asked) const {
  const ExecutionContext on_the_host({.placement = Placement::as_written});
  std::vector<Example> examples;
  examples.reserve(place.indices.size());
  for (std::size_t i = 0; i < place.indices.size(); ++i) {
    asked = place.indices[i];
    manual_seed(random_of(place, i).next());
    examples.push_back(dataset_->get(asked));
  }
  asked = -1;
  return options_.collate ? options_.collate(examples) : stack(examples, place.indices);
}

Batch BatchBuilder::transformed(const Batch& batch, const BatchPlace& place) const {
  std::vector<Random> random;
  random.reserve(place.indices.size());
  for (std::size_t i = 0; i < place.indices.size(); ++i) random.push_back(random_of(place, i));
  // The transform may draw from the thread's generator instead of `random`.
  manual_seed(Random(seed_, static_cast<std::uint64_t>(place.epoch),
                     static_cast<std::uint64_t>(place.first))
                  .next());
  const ExecutionContext on_the_host({.placement = Placement::as_written});
  return options_.transform(batch, random);
}

Batch BatchBuilder::build(const BatchPlace& place) const {
  std::int64_t asked = -1;
  try {
    const GeneratorKept kept;
    std::optional<ExampleLayout> layout;
    if (!options_.collate) layout = dataset_->layout();
    Batch batch = layout ? gathered(*layout, place.indices) : collated(place, asked);
    if (options_.transform) batch = transformed(batch, place);
    for (Tensor* field : {&batch.x, &batch.y}) {
      if (!field->defined()) continue;
      const TransferReason reason("data loader");
      *field = field->to(options_.device);
      field->eval();
    }
    return batch;
  } catch (...) {
    rethrow_at(asked >= 0 ? fmt::format("DataLoader: example {}", asked)
                          : fmt::format("DataLoader: batch of examples {} to {}",
                                        place.indices.front(), place.indices.back()));
  }
}

}  // namespace volta::data
