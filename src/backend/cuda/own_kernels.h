// The backend's own kernels, in CUDA C++; all others are emitted from plans.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel/emit.h"

namespace volta::cuda {

// Writes a scalar and its sequence number to host memory (ScalarReadback). The fence makes the
// value visible to the host before the number that announces it.
inline kernel::KernelSource readback_kernel() {
  return {"volta_read_back_scalar", R"(extern "C" __global__ void volta_read_back_scalar(
    const unsigned char* source, int bytes, unsigned long long* counter,
    volatile unsigned long long* entries, int entry_count) {
  const unsigned long long sequence = *counter + 1;
  *counter = sequence;
  unsigned long long value = 0;
  for (int i = 0; i < bytes; ++i) value |= (unsigned long long)source[i] << (8 * i);
  volatile unsigned long long* entry = entries + 2 * (sequence % entry_count);
  entry[0] = value;
  __threadfence_system();
  entry[1] = sequence;
}
)"};
}

// The parameters of the kernel below.
struct SlotCopyList {
  struct Copy {
    std::uint64_t to, from, bytes, first_block;
  };
  static constexpr unsigned kThreads = 256;
  static constexpr std::uint64_t kBlockBytes = kThreads * std::uint64_t{16} * 4;
  static constexpr std::size_t kMost = 96;  // kernel parameters are limited to 4 KiB

  void add(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    each[count++] = {to, from, bytes, blocks};
    blocks += (bytes + kBlockBytes - 1) / kBlockBytes;
  }

  std::array<Copy, kMost> each;
  std::uint64_t count, blocks;
};

// Copies into or out of slots (SlotCopies); each copy has its own thread blocks.
inline kernel::KernelSource slot_copy_kernel() {
  return {"volta_copy_slots",
          fmt::format(R"(struct Copy {{ unsigned long long to, from, bytes, first_block; }};
struct Copies {{ Copy each[{0}]; unsigned long long count, blocks; }};

template <class Word>
__device__ unsigned long long copy_words(unsigned long long to, unsigned long long from,
                                         unsigned long long bytes) {{
  const unsigned long long words = bytes / sizeof(Word);
  for (unsigned long long i = threadIdx.x; i < words; i += {1})
    ((Word*)to)[i] = ((const Word*)from)[i];
  return words * sizeof(Word);
}}

extern "C" __global__ void __launch_bounds__({1}) volta_copy_slots(const Copies copies) {{
  int n = (int)copies.count - 1;
  while (copies.each[n].first_block > blockIdx.x) --n;
  const unsigned long long begin = (blockIdx.x - copies.each[n].first_block) * {2}ull;
  const unsigned long long to = copies.each[n].to + begin, from = copies.each[n].from + begin;
  unsigned long long bytes = copies.each[n].bytes - begin, done = 0;
  if (bytes > {2}ull) bytes = {2}ull;
  if ((to | from) % 16 == 0) done = copy_words<uint4>(to, from, bytes);
  else if ((to | from) % 4 == 0) done = copy_words<unsigned>(to, from, bytes);
  copy_words<unsigned char>(to + done, from + done, bytes - done);
}}
)",
                      SlotCopyList::kMost, SlotCopyList::kThreads, SlotCopyList::kBlockBytes)};
}

}  // namespace volta::cuda
