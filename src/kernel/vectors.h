// Decides which accesses of a program can take several neighbouring elements at a time, and which
// pass through shared memory. Shared by the planner, validation and emission.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

// The axis along which a schedule's `vec` counts; -1 if there is none.
VOLTA_BACKEND_API int vector_axis(const Program& program);

// Whether instruction `n` is a Load or Store that, as far as the text shows, accesses neighbouring
// elements at neighbouring points of `axis`. `dependence` is axis_dependence(program).
VOLTA_BACKEND_API bool is_contiguous(const Program& program, int n, int axis,
                                     const std::vector<std::uint64_t>& dependence);

// Whether every contiguous access is aligned to `vec` elements at the start of each group of `vec`
// points of `axis`, and its mask never splits a group. rows_allow_vectors also requires that the
// axis consists of whole groups; a Row with this `vec` needs this of its binding.
VOLTA_BACKEND_API bool accesses_allow_vectors(const Program& program,
                                              const std::vector<std::int64_t>& ints, int axis,
                                              int vec);
VOLTA_BACKEND_API bool rows_allow_vectors(const Program& program,
                                          const std::vector<std::int64_t>& ints, int axis, int vec);

// Peeled rows: per instruction, whether it accesses whole groups. These are contiguous accesses
// along the last axis, without gathers or masks there, that vary over the same Par axes; their
// groups can start together. Other accesses (weights that all rows share) go element by element.
// Empty if rows cannot be peeled.
VOLTA_BACKEND_API std::vector<bool> peeled_accesses(const Program& program);
// Whether these accesses all have the same alignment relative to `vec` elements at every point.
VOLTA_BACKEND_API bool rows_allow_peeled_vectors(const Program& program,
                                                 const std::vector<std::int64_t>& ints, int vec);

// Whether the program's schedule works for these numbers. A Map accepts any; a Row those for which
// its vectors, items and whole items were chosen.
VOLTA_BACKEND_API bool schedule_allows(const Program& program,
                                       const std::vector<std::int64_t>& ints);

// Whether Load `n` of a Map is contiguous along `tile_axis` and strided along the last axis.
VOLTA_BACKEND_API bool is_staged(const Program& program, int n, int tile_axis);

// The distance in elements between two lines of a tile, and the shared memory that all tiles of a
// Map need.
int tile_pitch(DType dtype, int tile);
VOLTA_BACKEND_API std::int64_t tile_bytes(const Program& program, int tile_axis, int tile);

}  // namespace volta::kernel
