// StateDict, and its way to and from safetensors files.
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>

#include <fmt/format.h>

#include "volta/creation.h"
#include "volta/error.h"
#include "volta/io.h"
#include "volta/safetensors.h"

namespace volta {

StateDict::StateDict(std::initializer_list<Entry> entries) {
  for (const auto& [name, tensor] : entries) add(name, tensor);
}

void StateDict::add(std::string name, Tensor tensor) {
  if (!tensor.defined()) {
    throw ArgumentError(fmt::format("StateDict: tensor '{}' is undefined", name));
  }
  const auto [position, added] = positions_.try_emplace(name, entries_.size());
  if (!added) throw ArgumentError(fmt::format("StateDict: '{}' is already there", name));
  try {
    entries_.emplace_back(std::move(name), std::move(tensor));
  } catch (...) {
    positions_.erase(position);
    throw;
  }
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto position = positions_.find(name);
  return position == positions_.end() ? nullptr : &entries_[position->second].second;
}

const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* tensor = find(name);
  if (!tensor) throw ArgumentError(fmt::format("StateDict: there is no '{}'", name));
  return *tensor;
}

namespace {

// The half-precision bits of a float that is exactly such a value: no rounding is needed.
std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  std::uint32_t half;
  if (!(magnitude < 65536.0f)) {  // infinity, NaN
    half = 0x7c00 | ((bits >> 13) & 0x3ff);
  } else if (magnitude < 0x1p-14f) {  // zero, subnormals
    half = static_cast<std::uint32_t>(magnitude * 0x1p24f);
  } else {
    half = ((bits & 0x7fffffff) >> 13) - ((127 - 15) << 10);
  }
  return static_cast<std::uint16_t>(sign | half);
}

std::uint16_t bf16_bits(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

// A tensor's elements on the host, in its own dtype.
using HostData = std::shared_ptr<const void>;

template <class T>
HostData keep(std::vector<T> values) {
  auto kept = std::make_shared<std::vector<T>>(std::move(values));
  return {kept, kept->data()};
}

HostData keep_halves(const std::vector<float>& values, std::uint16_t (*bits)(float)) {
  std::vector<std::uint16_t> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) halves[i] = bits(values[i]);
  return keep(std::move(halves));
}

HostData to_host(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f16:
      return keep_halves(tensor.to_vector<float>(), f16_bits);
    case DType::bf16:
      return keep_halves(tensor.to_vector<float>(), bf16_bits);
    case DType::f32:
      return keep(tensor.to_vector<float>());
    case DType::f64:
      return keep(tensor.to_vector<double>());
    case DType::i32:
      return keep(tensor.to_vector<std::int32_t>());
    case DType::i64:
      return keep(tensor.to_vector<std::int64_t>());
    case DType::u8:
    case DType::boolean:
      return keep(tensor.to_vector<std::uint8_t>());
  }
  throw DTypeError("save: unknown dtype");
}

}  // namespace

void save(const StateDict& state, const std::string& path) {
  std::vector<HostData> kept;
  std::vector<TensorData> tensors;
  kept.reserve(state.size());
  tensors.reserve(state.size());
  for (const auto& [name, tensor] : state) {
    kept.push_back(to_host(tensor));
    tensors.push_back({name, tensor.dtype(), tensor.shape(), kept.back().get()});
  }
  write_safetensors(path, tensors);
}

StateDict load(const std::string& path, LoadOptions options) {
  const SafetensorsFile file(path);
  StateDict state;
  for (const TensorEntry& entry : file.tensors()) {
    state.add(entry.name,
              detail::from_values("load", file.data(entry).data(),
                                  static_cast<std::size_t>(entry.shape.numel()), entry.dtype,
                                  entry.shape, {.dtype = entry.dtype, .device = options.device}));
  }
  return state;
}

}  // namespace volta
