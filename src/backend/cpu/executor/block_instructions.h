// The state of one launch on one thread: its registers and its position. Also declares the
// instructions that do more than call a Highway kernel and need not be inlined.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/executor/block_cursor.h"
#include "backend/cpu/vector/simd_table.h"

namespace volta::cpu {

struct BlockState {
  BlockState(const Launch& bound, const LaunchMemory& of_run, std::byte* of_thread);

  // The register of a value; values[value] points to where the value is now.
  std::byte* home(int value) const {
    const std::size_t offset = program.registers[at(value)];
    return program.narrow[at(value)] ? narrow + offset : registers + offset * widening;
  }
  void* memory_at(const BoundSite& site, std::int64_t index, DType dtype) const {
    return static_cast<std::byte*>(memory.slots[site.slot]) +
           index * static_cast<std::int64_t>(size_of(dtype));
  }

  const Launch& launch;
  const BlockProgram& program;
  const SimdTable& table;
  const LaunchMemory& memory;
  std::byte* const scratch;
  const std::size_t widening;  // the width of a block divided by kBlock
  std::byte* registers;
  std::byte* narrow;
  void** values;
  BlockCursor cursor;

 private:
  class Pieces;
  BlockState(const Launch& bound, const LaunchMemory& of_run, std::byte* of_thread, Pieces pieces);
};

inline std::int64_t read_integer(const void* from, std::int64_t lane, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return static_cast<const std::int32_t*>(from)[lane];
    case DType::i64:
      return static_cast<const std::int64_t*>(from)[lane];
    default:
      return static_cast<const std::uint8_t*>(from)[lane];
  }
}

void put_constant(void* out, DType dtype, double value);
void run_argument(const BlockState& state, const Code& code);
void run_index(const BlockState& state, const Code& code, const Block& block);
void run_bounded(const BlockState& state, const Code& code, const Block& block);
void run_search(const BlockState& state, const Code& code, const Block& block);
void run_philox(const BlockState& state, const Code& code, const Block& block);
void run_gather(const BlockState& state, const Code& code, const Block& block);
// Writes the fill value to lanes that a mask excludes.
void fill_lanes(const BlockState& state, const Code& code, std::byte* to, std::int64_t n);

void begin_scan(const BlockState& state, std::size_t k, std::int64_t lanes);
void run_scan(const BlockState& state, const Code& code, const Block& block);

// Adds up products of two loads directly from memory, without registers, if the strides allow it.
bool run_product(BlockState& state, const Phase& phase, const Block& block);

}  // namespace volta::cpu
