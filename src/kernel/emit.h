// The C emitter: prints a kernel program as CUDA C++ (for NVRTC) or OpenCL C 1.2. There is one
// emitter; a dialect is a short prelude of names plus the few spellings that differ.
//
// Calling convention. A kernel takes these parameters in this order, without those that do not
// apply:
//   one buffer per slot    CUDA: a pointer to the element type
//                          OpenCL: a __global pointer to char, then a ulong byte offset
//   the argument block     CUDA: const unsigned long long*, at the binding's first word
//   (if program.args)      OpenCL: __global const ulong*, then the ulong index of that word
//   the error record       a pointer to ErrorRecord
//   (if it has Bounded)
//   the integers (if any)  one struct by value with int_params members, of type int, or of
//                          type long long (CUDA) or long (OpenCL) if schedule.index64
// A horizontal kernel takes instead:
//   the table              const 8-byte words: `segments` rows of row_words(program) words,
//                          [first block][ints...][one address per slot][first argument word]
//   segments               int
//   the argument block     as above, but at word 0 of the plan's block
//   the error record       as above
//   the base buffers       OpenCL only: kHorizontalBases pointers of type __global char*
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
  std::string name;  // the entry point; it contains a hash of the canonical text
  std::string text;  // the complete source, which includes nothing
};
VOLTA_BACKEND_API KernelSource emit(const Program& program, Dialect dialect);
// Names a template's kernel: replaces KERNEL_NAME by the kind and a hash of the text.
KernelSource named_source(const std::string& kind, std::string text);

// The threads per block (work-group size) of a program, which depend on its schedule alone.
VOLTA_BACKEND_API int block_threads(const Program& program);
// The number of blocks that one binding needs; 0 if there is nothing to do.
VOLTA_BACKEND_API std::int64_t block_count(const Program& program,
                                           const std::vector<std::int64_t>& ints);
// The number of words in one row of a horizontal kernel's table.
VOLTA_BACKEND_API int row_words(const Program& program);

}  // namespace volta::kernel
