// A kernel program prepared for block-wise execution: instructions are sorted into sections by the
// axes they vary over and by phase, kernels are chosen, registers are assigned. Sizes are not known
// yet; see block_launch.h.
//
// A block runs along the vector axes; the outer axes are looped over one point at a time.
//   Map    vector: Par                 one section per block
//   Lanes  vector: Par, outer: Red     short rows and columns: each lane is a Par point
//   Rows   vector: Red, outer: Par     one Par point at a time, its row in blocks
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/vector/simd_table.h"
#include "kernel/program.h"

namespace volta::cpu {

enum class Mode : std::uint8_t { Map, Lanes, Rows };

enum class CodeKind : std::uint8_t {
  Const,
  Arg,
  Compute,
  Chain,
  Load,
  Gather,
  Index,
  Bounded,
  Search,
  Philox,
  Accumulate,
  Scan,
  Store
};

// One step of a section. Operands are value numbers (instructions of the program).
struct Code {
  CodeKind kind;
  DType dtype;             // of the result; for Store and Accumulate, of the value
  bool may_alias = false;  // Load: the value may be used in place, without a copy
  bool spread = false;     // a uniform value that blocks need in every lane
  int out = -1, a = -1, b = -1, c = -1;
  // Load, Gather, Index, Philox, Store: the entry in `sites`; Accumulate: the entry in `reduces`.
  int site = -1;
  int direct = -1;  // Compute, Chain: the site of a Store into which the result may go directly
  ComputeFn fn = nullptr;   // Compute
  ChainFn chain = nullptr;  // Chain
  int folds = -1;           // Chain: the entry of `reduces` that consumes the result directly
  bool only = false;        // Chain with `direct` or `folds`: the result has no other reader
  std::uint32_t first_step = 0, step_count = 0;  // Chain: in BlockProgram::steps
};

struct Phase {
  std::vector<Code> par;    // once per Par point (Rows), per block (Map, Lanes)
  std::vector<Code> inner;  // the part of `par` that only rows with elements need
  // Results of `par` and of Reduces that have to be repeated for blocks. Rows: in every lane;
  // Lanes: in every row, if several share a block.
  std::vector<int> spread;
  std::vector<Code> kept;    // per block, if row values are kept between phases
  std::vector<Code> again;   // per block, if each phase computes row values again
  std::vector<int> reduces;  // entries of `reduces` that this phase computes
  // Lanes: the sites of two Loads if the blocks only add up their product, otherwise -1.
  int product_a = -1, product_b = -1;
  int folded = -1;  // Lanes: the site of a Load if the blocks only reduce it, otherwise -1
};

struct ReduceSite {
  int instr;
  int value;
  kernel::ReduceOp op;
  DType dtype;  // of the value
};

struct BlockProgram {
  kernel::Program program;
  Mode mode = Mode::Map;
  int vec_begin = 0, vec_end = 0, outer_begin = 0, outer_end = 0;  // ranges of axes
  std::vector<Code> uniform;                                       // once per launch
  std::vector<Code> uniform_stores;                                // once, after everything else
  std::vector<Phase> phases;
  std::vector<ChainStep> steps;
  int bound = -1;          // Lanes: the instruction that limits the loop over the Red axis
  bool pointwise = false;  // Lanes: no instruction of a block depends on the Red point's number
  std::vector<int> sites;  // instructions with an address
  std::vector<ReduceSite> reduces;
  std::vector<int> scans;                 // instructions; Code::site is the entry
  bool scans_back = false;                // Scans run from the end of the row
  std::vector<int> kept;                  // values of `Phase::kept` that are stored for a whole row
  std::vector<std::uint64_t> dependence;  // per instruction: the axes it varies over, as bits
  std::vector<std::uint32_t> registers;   // per instruction: byte offset of its register
  std::vector<bool> narrow;               // per instruction: only lane 0 is used
  std::size_t register_bytes = 0, narrow_bytes = 0;  // register_bytes is for blocks of kBlock
};

BlockProgram compile(const kernel::Program& program);
// An estimate of the host memory that the program takes.
std::uint64_t host_bytes(const BlockProgram& program);

}  // namespace volta::cpu
