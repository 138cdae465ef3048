// DLPack. An exported tensor holds its node, so nobody overwrites its memory; an import wraps the
// memory in place where possible.
#include "volta/dlpack.h"

#include <array>
#include <exception>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "backend/registry.h"
#include "graph/record/apply.h"
#include "graph/record/creation.h"
#include "graph/record/evaluation.h"
#include "graph/record/recorder.h"
#include "runtime/indices/index_checks.h"
#include "runtime/transfer/blob.h"
#include "runtime/transfer/upload.h"
#include "volta/dlpack_abi.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta {
namespace {

using graph::Node;
using graph::NodeState;

// DLPack types in the order of DType.
constexpr std::array<DLDataType, kDTypeCount> kTypes = {{{dlpack::kFloat, 16, 1},
                                                         {dlpack::kBfloat, 16, 1},
                                                         {dlpack::kFloat, 32, 1},
                                                         {dlpack::kFloat, 64, 1},
                                                         {dlpack::kInt, 32, 1},
                                                         {dlpack::kInt, 64, 1},
                                                         {dlpack::kUInt, 8, 1},
                                                         {dlpack::kBool, 8, 1}}};

DType dtype_from(DLDataType type) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].code == type.code && kTypes[i].bits == type.bits && type.lanes == 1)
      return static_cast<DType>(i);
  }
  throw DTypeError(
      fmt::format("from_dlpack: elements of type code {}, {} bits, {} lanes have no dtype here",
                  type.code, type.bits, type.lanes));
}

Device device_from(DLDevice device) {
  switch (device.device_type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return Device::cpu();
    case dlpack::kCuda:
      if (const std::string problem = why_unusable(DeviceType::cuda, device.device_id);
          !problem.empty()) {
        throw DeviceError("from_dlpack: " + problem);
      }
      return DeviceAccess::make(DeviceType::cuda, device.device_id);
    case dlpack::kOpenCl:
      throw DeviceError(
          "from_dlpack: OpenCL memory belongs to a context of its owner's; copy it to the CPU "
          "first");
    default:
      throw DeviceError(
          fmt::format("from_dlpack: memory of device type {}; expected the CPU (1, 3) or CUDA (2)",
                      device.device_type));
  }
}

DLDevice device_to(Device device) {
  constexpr std::int32_t types[] = {dlpack::kCpu, dlpack::kCuda, dlpack::kOpenCl};
  return {types[static_cast<int>(device.type())], device.index()};
}

// The exported structure and the node that it keeps alive.
template <class Managed>
struct Export {
  explicit Export(graph::Held holds) : node(std::move(holds)) {
    DLTensor& tensor = managed.dl_tensor;
    const Shape& shape = node->shape;
    std::int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      sizes[static_cast<std::size_t>(axis)] = shape[axis];
      strides[static_cast<std::size_t>(axis)] = stride;
      stride *= shape[axis] == 0 ? 1 : shape[axis];
    }
    const Address& address = node->buffer->address;
    const bool handle = node->entry->device.type() == DeviceType::opencl;
    tensor.data = handle ? address.base : address.pointer();
    tensor.byte_offset = handle ? address.offset : 0;
    tensor.device = device_to(node->entry->device);
    tensor.ndim = shape.rank();
    tensor.dtype = kTypes[static_cast<std::size_t>(node->dtype)];
    tensor.shape = sizes.data();
    tensor.strides = strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Export*>(self->manager_ctx); };
  }

  graph::Held node;
  std::array<std::int64_t, kMaxRank> sizes{}, strides{};
  Managed managed{};
};

// A node with its value in memory: a copy if one is asked for or if the node is a constant.
struct InMemory {
  graph::Held node;
  bool copied;
};
InMemory in_memory(const Tensor& tensor, bool copy) {
  graph::require_defined("to_dlpack", tensor, "this");
  Node* node = graph::node_of(tensor);
  graph::ensure_computed(node);
  DeviceEntry& entry = *node->entry;
  const std::lock_guard guard(entry.lock);
  const bool constant = node->state.load(std::memory_order_acquire) == NodeState::Constant;
  graph::Held result(node);
  if (constant) {
    result = graph::Held(graph::node_of(
        graph::upload(graph::observe(node).data(), node->shape, node->dtype, entry.device)));
  } else {
    graph::make_resident(*node);
  }
  if (copy && !constant) {
    graph::Buffer* buffer = graph::allocate_buffer(entry, node->buffer->bytes);
    result = graph::Held(graph::node_of(graph::in_buffer(buffer, node->shape, node->dtype)));
    if (buffer->bytes > 0)
      entry.streams.copy(buffer->address, buffer->times, node->buffer->address, node->buffer->times,
                         buffer->bytes);
  }
  entry.backend.synchronize(entry.index);
  graph::verify_indices(*node);
  return {std::move(result), constant || copy};
}

template <class Managed>
Tensor import(Managed* managed, SourceLocation place) {
  if (managed == nullptr) throw ArgumentError("from_dlpack: no tensor");
  graph::Once give_back([managed] {
    if (managed->deleter != nullptr) managed->deleter(managed);
  });
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    if (managed->version.major != dlpack::kMajorVersion) {
      throw ArgumentError(
          fmt::format("from_dlpack: a tensor of DLPack version {}.{}; expected {}.x",
                      managed->version.major, managed->version.minor, dlpack::kMajorVersion));
    }
  }
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
    throw ShapeError(fmt::format("from_dlpack: {} axes, at most {}", tensor.ndim, kMaxRank));
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  const Shape shape(std::span<const std::int64_t>(tensor.shape, rank));
  const DType dtype = dtype_from(tensor.dtype);
  DeviceEntry& entry = device_entry(device_from(tensor.device));
  if (!entry.device.is_cpu()) {
    // Work that reads the memory may still be running when the last reference is dropped.
    give_back = graph::Once([&entry, act = give_back.take()] {
      try {
        const std::lock_guard guard(entry.lock);
        entry.backend.synchronize(entry.index);
      } catch (const std::exception& error) {
        log(LogLevel::warning, fmt::format("from_dlpack: giving memory back: {}", error.what()));
      }
      act();
    });
  }
  const graph::Foreign foreign{
      {tensor.data, tensor.byte_offset},
      &entry,
      dtype,
      &shape,
      std::span<const std::int64_t>(tensor.strides, tensor.strides == nullptr ? 0 : rank)};
  return graph::from_foreign("from_dlpack", foreign, std::nullopt, std::move(give_back), place);
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& tensor, ToDlpackOptions options) {
  InMemory value = in_memory(tensor, options.copy);
  auto exported = std::make_unique<Export<DLManagedTensorVersioned>>(std::move(value.node));
  exported->managed.version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  exported->managed.flags = value.copied ? dlpack::kIsCopied : dlpack::kReadOnly;
  return &exported.release()->managed;
}

DLManagedTensor* to_dlpack_unversioned(const Tensor& tensor) {
  auto exported = std::make_unique<Export<DLManagedTensor>>(in_memory(tensor, true).node);
  return &exported.release()->managed;
}

Tensor from_dlpack(DLManagedTensorVersioned* managed, SourceLocation place) {
  return import(managed, place);
}
Tensor from_dlpack(DLManagedTensor* managed, SourceLocation place) {
  return import(managed, place);
}

}  // namespace volta
