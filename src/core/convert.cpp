// Conversion of host values, and observation: where a value is computed because somebody looks.
#include "graph/host.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "core/fork_guard.h"
#include "core/profiling.h"
#include "core/registry.h"
#include "graph/index_checks.h"
#include "graph/segment.h"
#include "graph/transfers.h"
#include "platform/memory.h"
#include "volta/error.h"

namespace volta::graph {
namespace {

float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t exponent = h >> 10 & 0x1F, mantissa = h & 0x3FF;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 0xFF : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// Round to nearest, ties to even.
std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1p-14f) {
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const std::uint32_t m = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = m + 0xFFF + (m >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

float bfloat_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}
std::uint16_t float_to_bfloat(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Every dtype through double, except integers among themselves.
double read_number(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::f16:
      return half_to_float(read<std::uint16_t>(at));
    case DType::bf16:
      return bfloat_to_float(read<std::uint16_t>(at));
    case DType::f32:
      return read<float>(at);
    case DType::f64:
      return read<double>(at);
    case DType::i32:
      return read<std::int32_t>(at);
    case DType::i64:
      return static_cast<double>(read<std::int64_t>(at));
    case DType::u8:
    case DType::boolean:
      return read<std::uint8_t>(at);
  }
  return 0;
}
std::int64_t read_integer(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return read<std::int32_t>(at);
    case DType::i64:
      return read<std::int64_t>(at);
    case DType::u8:
    case DType::boolean:
      return read<std::uint8_t>(at);
    default: {
      const double value = read_number(at, dtype);
      if (!(value > -9.3e18 && value < 9.2e18)) return std::numeric_limits<std::int64_t>::min();
      return static_cast<std::int64_t>(value);
    }
  }
}

void write_number(std::byte* at, DType dtype, double value, std::int64_t integer) {
  switch (dtype) {
    case DType::f16:
      return write(at, float_to_half(static_cast<float>(value)));
    case DType::bf16:
      return write(at, float_to_bfloat(static_cast<float>(value)));
    case DType::f32:
      return write(at, static_cast<float>(value));
    case DType::f64:
      return write(at, value);
    case DType::i32:
      return write(at, static_cast<std::int32_t>(integer));
    case DType::i64:
      return write(at, integer);
    case DType::u8:
      return write(at, static_cast<std::uint8_t>(integer));
    case DType::boolean:
      return write(at, static_cast<std::uint8_t>(value != 0 ? 1 : 0));
  }
}

}  // namespace

void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t count) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  if (from_dtype == to_dtype) {
    if (count > 0) std::memcpy(to, from, count * size_of(from_dtype));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = source + i * size_of(from_dtype);
    write_number(target + i * size_of(to_dtype), to_dtype, read_number(at, from_dtype),
                 read_integer(at, from_dtype));
  }
}

double nearest(double number, DType dtype) {
  if (dtype == DType::f32) return static_cast<float>(number);
  std::array<std::byte, 8> stored{};
  convert(&number, DType::f64, stored.data(), dtype, 1);
  convert(stored.data(), dtype, &number, DType::f64, 1);
  return number;
}

bool fits(Scalar value, DType dtype) {
  if (is_floating(dtype) || dtype == DType::boolean) return true;
  if (!value.fits_integer()) return false;
  return dtype == DType::i32  ? std::in_range<std::int32_t>(value.integer())
         : dtype == DType::u8 ? std::in_range<std::uint8_t>(value.integer())
                              : true;
}

void require_fits(const char* op, Scalar value, DType dtype) {
  if (fits(value, dtype)) return;
  const bool exact = !value.is_floating() && value.fits_integer();
  const std::string number =
      exact ? fmt::to_string(value.integer()) : fmt::to_string(value.value());
  throw ArgumentError(fmt::format("{}: {} does not fit {}", op, number, name_of(dtype)));
}

void convert_fitting(const char* op, const void* from, DType from_dtype, void* to, DType to_dtype,
                     std::size_t count) {
  const auto* source = static_cast<const std::byte*>(from);
  const bool narrows = from_dtype != to_dtype && !is_floating(to_dtype);
  for (std::size_t i = 0; narrows && i < count; ++i) {
    const std::byte* at = source + i * size_of(from_dtype);
    require_fits(op,
                 is_floating(from_dtype) ? Scalar(read_number(at, from_dtype))
                                         : Scalar(read_integer(at, from_dtype)),
                 to_dtype);
  }
  convert(from, from_dtype, to, to_dtype, count);
}

void require_holds(const char* op, DType from, DType to) {
  const bool bytes_of_bool = from == DType::boolean && to == DType::u8;
  if (from == to || bytes_of_bool || promote(from, to) == to) return;
  throw DTypeError(fmt::format("{}: {} values do not all fit {}; convert with to()", op,
                               name_of(from), name_of(to)));
}

void require_host_memory(const char* op, const Tensor& tensor, std::size_t element_bytes) {
  const std::int64_t count = tensor.numel();
  if (static_cast<std::uint64_t>(count) <= platform::physical_memory() / element_bytes) return;
  throw OutOfMemory(fmt::format("{}: {} elements do not fit into memory", op, count));
}

namespace {
std::unique_ptr<HostCopy> host_copy(const Node& node, std::size_t bytes) {
  if (bytes <= platform::physical_memory()) return std::make_unique<HostCopy>(bytes);
  throw OutOfMemory(fmt::format("the values of {} {} do not fit into the host's memory",
                                to_string(node.shape), name_of(node.dtype)));
}
}  // namespace

std::span<const std::byte> observe(Node* node) {
  ensure_computed(node);
  const std::size_t bytes = static_cast<std::size_t>(node->shape.numel()) * size_of(node->dtype);
  DeviceEntry& entry = *node->entry;
  std::unique_lock guard(entry.lock);
  if (node->state.load(std::memory_order_acquire) == NodeState::Constant) {
    if (!node->host) {
      node->host = host_copy(*node, bytes);
      for (std::int64_t i = 0; i < node->shape.numel(); ++i) {
        write_number(node->host->bytes.data() + static_cast<std::size_t>(i) * size_of(node->dtype),
                     node->dtype, node->value, node->integer);
      }
    }
    return node->host->bytes;
  }
  if (entry.device.is_cpu()) {
    verify_indices(*node);
    return {static_cast<const std::byte*>(node->buffer->address.pointer()), bytes};
  }
  if (!node->host) {
    require_not_forked(entry);
    throw_known_index_error(*node);
    auto host = host_copy(*node, bytes);
    const profiling::HostSpan span("waiting for values");
    if (bytes == 0) {
      entry.backend.synchronize(entry.index);  // nothing to wait for, but an index may be wrong
    } else {
      // Work of other streams need not wait too: whoever looks at the node keeps it as it is.
      if (entry.lanes.several()) guard.unlock();
      {
        const Transfer transfer(Transfer::Direction::ToHost, entry.device, bytes);
        entry.lanes.download(host->bytes.data(), node->buffer->address, node->buffer->times, bytes);
      }
      if (!guard.owns_lock()) guard.lock();
    }
    verify_indices(*node);
    if (!node->host) node->host = std::move(host);  // or another thread was first
  } else if (node->buffer == nullptr) {             // the CPU computed it
    verify_indices(*node);
  }
  return node->host->bytes;
}

}  // namespace volta::graph
