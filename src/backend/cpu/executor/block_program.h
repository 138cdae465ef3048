// A kernel program prepared for execution block by block: instructions sorted into sections by what
// they vary over and by phase, kernels chosen, registers assigned. Sizes are not known yet; see
// block_launch.h.
//
// The vector axes are those a block runs along, the outer axes are looped over one point at a time:
//   Map    vector: Par                 one section per block
//   Lanes  vector: Par, outer: Red     short rows and columns: each lane is a Par point
//   Rows   vector: Red, outer: Par     one Par point at a time, its row in blocks
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/simd_table.h"
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
  DType dtype;             // of the result; Store, Accumulate: of the value
  bool may_alias = false;  // Load: the value may stay where it is in memory
  bool spread = false;     // uniform: blocks need it in every lane
  int out = -1, a = -1, b = -1, c = -1;
  int site =
      -1;  // Load, Gather, Index, Philox, Store: its entry in `sites`; Accumulate: in `reduces`
  int direct = -1;  // Compute, Chain: the site of a Store whose memory may take the result at once
  ComputeFn fn = nullptr;   // Compute
  ChainFn chain = nullptr;  // Chain
  int folds = -1;           // Chain: the entry of `reduces` that takes the result as it comes
  bool only = false;        // Chain with `direct` or `folds`: nobody else reads the result
  std::uint32_t first_step = 0, step_count = 0;  // Chain: in BlockProgram::steps
};

struct Phase {
  std::vector<Code> par;    // once per Par point (Rows), per block (Map, Lanes)
  std::vector<Code> inner;  // of `par`, what only rows with a bound need: not where they are empty
  // Results of `par` and of Reduces that blocks need. Rows: in every lane; Lanes: in every row,
  // where several are together.
  std::vector<int> spread;
  std::vector<Code> kept;    // per block; row values computed once and kept for later phases
  std::vector<Code> again;   // per block; row values computed again in each phase
  std::vector<int> reduces;  // entries of `reduces` this phase fills
  // Lanes: the blocks do nothing but add up the product of two Loads; their sites. Else -1.
  int product_a = -1, product_b = -1;
  int folded = -1;  // Lanes: the blocks do nothing but reduce this Load; its site. Else -1.
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
  int bound = -1;          // Lanes: the instruction that ends the loop over the Red axis
  bool pointwise = false;  // Lanes: no step of a block asks which Red point it stands for
  std::vector<int> sites;  // instructions with an address
  std::vector<ReduceSite> reduces;
  std::vector<int> scans;                 // instructions; Code::site is the entry
  bool scans_back = false;                // Scans start at the end of the row
  std::vector<int> kept;                  // values of `Phase::kept` that live in row memory
  std::vector<std::uint64_t> dependence;  // per instruction: set of axes
  std::vector<std::uint32_t> registers;   // per instruction: byte offset of its register
  std::vector<bool> narrow;               // per instruction: only lane 0 is used
  std::size_t register_bytes = 0, narrow_bytes = 0;  // the former for blocks of kBlock
};

BlockProgram compile(const kernel::Program& program);

}  // namespace volta::cpu
