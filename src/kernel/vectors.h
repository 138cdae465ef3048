// Which accesses of a program can be taken several neighbouring elements at a time, and which pass
// through shared memory. Shared by the planner, validation and emission.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

// The axis along which a schedule's `vec` counts; -1 where there is none.
VOLTA_BACKEND_API int vector_axis(const Program& program);

// Whether instruction `n` is a Load or Store that takes neighbouring elements at neighbouring
// points of `axis`, as far as the text shows. `dependence` is axis_dependence(program).
VOLTA_BACKEND_API bool is_contiguous(const Program& program, int n, int axis,
                                     const std::vector<std::uint64_t>& dependence);

// Whether every contiguous access starts at a multiple of `vec` elements wherever a group of `vec`
// points of `axis` does, with whole groups inside its mask. rows_allow_vectors: and the axis is
// made of whole groups, which is what a Row with that `vec` asks of the numbers it is bound to.
VOLTA_BACKEND_API bool accesses_allow_vectors(const Program& program,
                                              const std::vector<std::int64_t>& ints, int axis,
                                              int vec);
VOLTA_BACKEND_API bool rows_allow_vectors(const Program& program,
                                          const std::vector<std::int64_t>& ints, int axis, int vec);

// Peeled rows: per instruction, whether it takes whole groups. Those start together where the
// numbers allow it: accesses along the last axis with neither gathers nor masks there, that vary
// over the same Par axes. Others (weights that all rows share) are taken element by element.
// Empty where rows cannot be peeled.
VOLTA_BACKEND_API std::vector<bool> peeled_accesses(const Program& program);
// Whether at every point those accesses lie alike relative to multiples of `vec` elements.
VOLTA_BACKEND_API bool rows_allow_peeled_vectors(const Program& program,
                                                 const std::vector<std::int64_t>& ints, int vec);

// Whether the program, with its schedule, may be given these numbers: a Map any, a Row those that
// its vectors, items and whole items were made for.
VOLTA_BACKEND_API bool schedule_allows(const Program& program,
                                       const std::vector<std::int64_t>& ints);

// Whether Load `n` of a Map walks `tile_axis` element by element and the last axis in larger steps.
VOLTA_BACKEND_API bool is_staged(const Program& program, int n, int tile_axis);

// Elements from one line of a tile to the next, and the shared memory all tiles of a Map need.
int tile_pitch(DType dtype, int tile);
VOLTA_BACKEND_API std::int64_t tile_bytes(const Program& program, int tile_axis, int tile);

}  // namespace volta::kernel
