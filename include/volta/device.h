// Where tensors live and operations run.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volta/dtype.h"
#include "volta/export.h"

namespace volta {

enum class DeviceType : std::uint8_t { cpu, cuda, opencl };

// What a device can do.
struct DeviceCapabilities {
  bool gpu = false;            // a GPU: an OpenCL device may be a CPU
  bool f64 = false;            // has doubles
  bool half_products = false;  // multiplies matrices of f16 and bf16 without converting them first
  // At best, by its driver; 0: not known.
  double bytes_per_second = 0;
  double operations_per_second = 0;  // of f32
};

class VOLTA_API Device {
 public:
  Device() = default;  // the CPU

  static Device cpu() { return {}; }
  // Throw DeviceError saying why the device is absent (unless VOLTA_FALLBACK=cpu: then the CPU,
  // with a warning).
  static Device cuda(int index = 0);
  static Device opencl(int index = 0);
  // The first GPU present (CUDA, then OpenCL GPUs), or nothing. VOLTA_DEVICE=cuda:1 (cpu, opencl:0,
  // ...) names the one that gpu() and best() give instead.
  static std::optional<Device> gpu();
  // The GPU if there is one, else the CPU with one message at level info.
  static Device best();
  // "cpu", "cuda", "cuda:1", "opencl:0", "gpu" (falls back to the CPU with one message), "best".
  static Device parse(std::string_view text);

  DeviceType type() const { return type_; }
  int index() const { return index_; }
  bool is_cpu() const { return type_ == DeviceType::cpu; }
  bool is_gpu() const { return type_ != DeviceType::cpu; }  // of a GPU family

  std::string name() const;            // what the hardware calls itself
  std::uint64_t total_memory() const;  // bytes
  bool supports(DType dtype) const;
  DeviceCapabilities capabilities() const;

  friend bool operator==(Device a, Device b) { return a.type_ == b.type_ && a.index_ == b.index_; }

 private:
  Device(DeviceType type, int index) : type_(type), index_(static_cast<std::uint8_t>(index)) {}
  friend struct DeviceAccess;
  DeviceType type_ = DeviceType::cpu;
  std::uint8_t index_ = 0;
};

VOLTA_API std::string to_string(Device device);  // "cpu", "cuda:0"
VOLTA_API std::ostream& operator<<(std::ostream& out, Device device);

// Every device present: the CPU first.
VOLTA_API std::vector<Device> devices();
VOLTA_API bool is_gpu_available();
// Waits until all submitted work of the device is done.
VOLTA_API void synchronize(Device device);

}  // namespace volta

template <>
struct std::hash<volta::Device> {
  std::size_t operator()(volta::Device d) const noexcept {
    return static_cast<std::size_t>(d.type()) * 256 + static_cast<std::size_t>(d.index());
  }
};
