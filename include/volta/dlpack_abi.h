// DLPack's structures as of version 1.0, for programs without DLPack's own header. Layout and names
// are fixed by its specification. Do not include this together with <dlpack/dlpack.h>.
#pragma once

#include <cstdint>

namespace volta::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kOpenCl = 4 };
enum TypeCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

inline constexpr std::uint64_t kReadOnly = 1, kIsCopied = 2;  // flags
inline constexpr std::uint32_t kMajorVersion = 1, kMinorVersion = 0;

}  // namespace volta::dlpack

struct DLPackVersion {
  std::uint32_t major;  // a different major version has a different layout
  std::uint32_t minor;
};

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null before 1.2 means row-major
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  // may be null
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be null
  std::uint64_t flags;
  DLTensor dl_tensor;
};
