// Philox4x32-10, the counter-based random generator that every backend shares.
// Element i of a random tensor with `offset` takes word i % 4 of the block whose 128-bit counter is
// (low, high) = (offset + i / 4, 0), under the 64-bit key `seed`.
//   dtype i64: the 32-bit word;  f32: (word >> 8) * 2^-24;  f64: word * 2^-32
#pragma once

#include <array>
#include <cstdint>

namespace volta::kernel {

inline std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter),
                c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0, c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

}  // namespace volta::kernel
