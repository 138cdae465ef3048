// The C emitter: prints a kernel program as CUDA C++ (for NVRTC) or OpenCL C 1.2. One emitter; a
// dialect is a short prelude of names plus the few spellings that differ.
//
// Calling convention. A kernel takes, in this order (those that do not apply are left out):
//   one buffer per slot         CUDA: a pointer to the element type
//                               OpenCL: __global pointer to char, then a ulong byte offset
//   the argument block          CUDA: const unsigned long long*, already at the binding's first
//   word (if program.args)           OpenCL: __global const ulong*, then a ulong word index of the
//   first word the error record            pointer to ErrorRecord (if the program has Bounded) the
//   integers (if any)       one struct by value of int_params members: int, or long long / long
//   when
//                               schedule.index64
// A horizontal kernel takes instead:
//   the table                   const 8-byte words: `segments` rows of row_words(program) words:
//                               [first block][ints...][one address per slot][first argument word]
//   segments                    int
//   the argument block, the error record (as above; the argument block at word 0 of the plan's
//   block) OpenCL only: kHorizontalBases __global char* base buffers
// An address in the table is a pointer (CUDA), or base number << 56 | byte offset (OpenCL). Each
// block finds its segment by binary search over the first blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

enum class Dialect : std::uint8_t { Cuda, OpenCL };

inline constexpr int kHorizontalBases = 8;

struct KernelSource {
  std::string name;  // the entry point; a hash of the canonical text is part of it
  std::string text;  // complete source, includes nothing
};
VOLTA_BACKEND_API KernelSource emit(const Program& program, Dialect dialect);
// A template's text with its own name in place of KERNEL_NAME: the kind and a hash of the text.
KernelSource named_source(const std::string& kind, std::string text);

// Threads per block (work-group size) of a program: a function of its schedule alone.
VOLTA_BACKEND_API int block_threads(const Program& program);
// Blocks one binding needs; 0 when there is nothing to do.
VOLTA_BACKEND_API std::int64_t block_count(const Program& program,
                                           const std::vector<std::int64_t>& ints);
// Words of one row of a horizontal kernel's table.
VOLTA_BACKEND_API int row_words(const Program& program);

// Compiled kernels on disk: <folder>/<key>.bin, written to a temporary name and renamed. The folder
// is $VOLTA_CACHE_DIR, else $XDG_CACHE_HOME/volta, else ~/.cache/volta; without a writable one,
// caching is off with one warning. Entries carry a checksum: a corrupt one is deleted and reported
// as absent.
class VOLTA_BACKEND_API KernelCache {
 public:
  // The process's cache.
  static KernelCache& instance();

  // The key of a kernel: hash of source, compiler options, architecture and compiler version.
  static std::string key(const std::string& source, const std::string& options,
                         const std::string& architecture, const std::string& compiler);
  bool load(const std::string& key, std::string& binary);
  void store(const std::string& key, const std::string& binary);
};

}  // namespace volta::kernel
