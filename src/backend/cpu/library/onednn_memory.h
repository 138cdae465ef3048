// Estimates the memory of oneDNN's primitives. The library does not report it, so the distinct live
// primitives are counted and multiplied by the size measured for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "volta/export.h"

namespace volta::cpu {

// Primitives that oneDNN itself may keep although no plan uses them.
inline constexpr int kUnusedPrimitives = 128;
// The generated code and the description of a primitive. Products with oneDNN 2.6 on AVX-512 took
// 53 to
// 69 KiB (bench/memory_growth.cpp).
inline constexpr std::uint64_t kPrimitiveBytes = std::uint64_t{64} << 10;
// One use of a primitive: five memory objects, a stream, a table of arguments.
inline constexpr std::uint64_t kPrimitiveUseBytes = std::uint64_t{6} << 10;

// Counts a primitive as long as it lives. Primitives with equal keys share their code and count
// once.
class OneDnnCode {
 public:
  OneDnnCode() = default;
  explicit OneDnnCode(std::vector<std::int64_t> key);

 private:
  std::shared_ptr<const void> use_;
};

// The estimated bytes of all live primitives.
VOLTA_BACKEND_API std::uint64_t onednn_bytes();

}  // namespace volta::cpu
