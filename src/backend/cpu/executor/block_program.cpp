// Compiles kernel programs for the CPU executor.
#include "backend/cpu/executor/block_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/executor/block_chains.h"
#include "backend/cpu/executor/reduction.h"
#include "core/heap_bytes.h"
#include "kernel/dependence.h"
#include "volta/error.h"

namespace volta::cpu {
namespace {

using kernel::Domain;
using kernel::Instr;
using kernel::InstrKind;
using kernel::ScalarOp;

constexpr std::size_t at(int n) { return static_cast<std::size_t>(n); }

class Compiler {
 public:
  explicit Compiler(const kernel::Program& program) {
    out_.program = program;
    analysis_ = kernel::analyze(program);
    live_ = kernel::live_instructions(program);
    out_.dependence = kernel::axis_dependence(program);
    count_ = static_cast<int>(program.instrs.size());
  }

  BlockProgram run() {
    split_axes();
    chains_ = find_chains(out_.program, analysis_, out_.dependence, out_.mode == Mode::Rows, live_);
    find_uses();
    for (int n = 0; n < count_; ++n) codes_.push_back(code_of(n));
    sort_into_sections();
    choose_direct_stores();
    choose_folds();
    assign_registers();
    return std::move(out_);
  }

 private:
  const Instr& instr(int n) const { return out_.program.instrs[at(n)]; }
  Domain domain(int n) const { return analysis_.instrs[at(n)].domain; }
  int phase(int n) const { return analysis_.instrs[at(n)].phase; }
  bool is(int n, InstrKind kind) const { return instr(n).kind == kind; }

  void split_axes() {
    const auto& axes = out_.program.axes;
    int par = 0;
    while (par < static_cast<int>(axes.size()) && axes[at(par)].role == kernel::Role::Par) ++par;
    const int all = static_cast<int>(axes.size());
    const kernel::Schedule& schedule = out_.program.schedule;
    if (schedule.kind == kernel::ScheduleKind::Map) {
      out_.mode = Mode::Map;
    } else {
      out_.mode = schedule.lanes == 1 ? Mode::Lanes : Mode::Rows;
    }
    if (!axes.empty()) out_.bound = axes.back().bound;
    const bool rows = out_.mode == Mode::Rows;
    out_.vec_begin = rows ? par : 0;
    out_.vec_end = rows ? all : par;
    out_.outer_begin = rows ? 0 : par;
    out_.outer_end = rows ? par : all;
  }

  // The operands of the whole chain that computes n.
  std::vector<int> operands(int n) const {
    std::vector<int> result;
    for (const ChainStep& step : chains_[at(n)]) {
      result.push_back(step.a);
      if (step.b != step.a) result.push_back(step.b);
      if (step.c >= 0) result.push_back(step.c);
    }
    if (!result.empty()) return result;
    const Instr& self = instr(n);
    for (const int operand : {self.a, self.b, self.c}) {
      if (operand >= 0) result.push_back(operand);
    }
    return result;
  }

  void find_uses() {
    last_use_.assign(at(count_), -1);
    uses_.assign(at(count_), 0);
    stored_.assign(at(count_), false);
    for (int n = 0; n < count_; ++n) {
      if (!live_[at(n)]) continue;
      for (const int operand : operands(n)) {
        last_use_[at(operand)] = n;
        ++uses_[at(operand)];
        if (is(n, InstrKind::Store)) stored_[at(operand)] = true;
      }
      if (is(n, InstrKind::Store)) ++stores_;
    }
  }

  int site_of(int n) {
    out_.sites.push_back(n);
    return static_cast<int>(out_.sites.size()) - 1;
  }

  Code code_of(int n) {
    const Instr& self = instr(n);
    Code code{.kind = CodeKind::Compute,
              .dtype = self.dtype,
              .out = n,
              .a = self.a,
              .b = self.b,
              .c = self.c};
    switch (self.kind) {
      case InstrKind::Const:
        code.kind = CodeKind::Const;
        break;
      case InstrKind::Arg:
        code.kind = CodeKind::Arg;
        break;
      case InstrKind::Index:
        code.kind = CodeKind::Index;
        break;
      case InstrKind::Bounded:
        code.kind = CodeKind::Bounded;
        break;
      case InstrKind::Philox:
        code.kind = CodeKind::Philox;
        break;
      case InstrKind::Search:
        code.kind = CodeKind::Search;
        break;
      case InstrKind::Load:
        code.kind = self.a < 0 ? CodeKind::Load : CodeKind::Gather;
        break;
      case InstrKind::Store:
        code.kind = CodeKind::Store;
        code.dtype = instr(self.a).dtype;
        break;
      case InstrKind::Op:
        if (const std::vector<ChainStep>& steps = chains_[at(n)]; !steps.empty()) {
          code.kind = CodeKind::Chain;
          code.chain = simd().chain[type_index(self.dtype)];
          code.first_step = static_cast<std::uint32_t>(out_.steps.size());
          code.step_count = static_cast<std::uint32_t>(steps.size());
          out_.steps.insert(out_.steps.end(), steps.begin(), steps.end());
        } else if (live_[at(n)]) {
          const DType operand = instr(self.op == ScalarOp::where ? self.b : self.a).dtype;
          code.fn = simd().scalar(self.op, operand);
          require(code.fn != nullptr, kernel::info(self.op).name, operand);
        }
        break;
      case InstrKind::Cast:
        code.fn = simd().cast[type_index(instr(self.a).dtype)][type_index(self.dtype)];
        break;
      case InstrKind::Reduce:
        code.kind = CodeKind::Accumulate;
        code.dtype = instr(self.a).dtype;
        code.site = static_cast<int>(out_.reduces.size());
        require(simd().find_best[0][type_index(code.dtype)] != nullptr, "reduce", code.dtype);
        out_.reduces.push_back({n, self.a, self.reduce, code.dtype});
        break;
      case InstrKind::Scan:
        code.kind = CodeKind::Scan;
        code.site = static_cast<int>(out_.scans.size());
        code.fn = simd().scalar(ScalarOp::add, self.dtype);
        require(code.fn != nullptr, "scan", self.dtype);
        out_.scans.push_back(n);
        out_.scans_back = self.reverse;
        break;
    }
    if (code.kind == CodeKind::Compute) {
      // Every kernel gets three operand addresses; unused ones may be anything.
      if (code.b < 0) code.b = code.a;
      if (code.c < 0) code.c = code.a;
    }
    const bool addressed = self.kind == InstrKind::Load || self.kind == InstrKind::Store ||
                           self.kind == InstrKind::Index || self.kind == InstrKind::Philox ||
                           self.kind == InstrKind::Search;
    if (addressed && live_[at(n)]) code.site = site_of(n);
    // A value that is stored unchanged must survive the other stores of its block, so it is copied.
    code.may_alias = code.kind == CodeKind::Load && !(stored_[at(n)] && stores_ > 1);
    return code;
  }

  static void require(bool holds, const char* what, DType dtype) {
    if (!holds) throw BackendError(fmt::format("cpu: no {} for {}", what, name_of(dtype)));
  }

  void sort_into_sections() {
    out_.phases.resize(at(analysis_.phases + 1));
    const Domain body = out_.mode == Mode::Map ? Domain::Par : Domain::Full;
    for (int n = 0; n < count_; ++n) {
      if (!live_[at(n)] || is(n, InstrKind::Reduce) || is(n, InstrKind::Store)) continue;
      if (domain(n) == Domain::Uniform) out_.uniform.push_back(codes_[at(n)]);
      if (domain(n) == Domain::Par) {
        out_.phases[at(phase(n))].par.push_back(codes_[at(n)]);
        // A value must not stay in place across phases: the memory may change.
        if (body != Domain::Par) out_.phases[at(phase(n))].par.back().may_alias = false;
      }
    }
    // Stores come after all computations of their section, because a store may overwrite what was
    // loaded.
    for (int n = 0; n < count_; ++n) {
      if (!live_[at(n)] || !is(n, InstrKind::Store)) continue;
      if (domain(n) == Domain::Uniform) out_.uniform_stores.push_back(codes_[at(n)]);
      if (domain(n) == Domain::Par) out_.phases[at(phase(n))].par.push_back(codes_[at(n)]);
    }
    if (body == Domain::Full) sort_row_values();
    find_spread();
    if (out_.mode == Mode::Lanes) {
      find_products();
      find_pointwise();
    }
    if (out_.bound >= 0) find_inner();
  }

  // Sorts row values by phase. All row stores go to the last phase that has any, because a later
  // phase may read the row again after a store would have overwritten it.
  void sort_row_values() {
    int last = 0;
    for (int n = 0; n < count_; ++n) {
      if (live_[at(n)] && (domain(n) == Domain::Full || is(n, InstrKind::Reduce))) {
        last = std::max(last, phase(n));
      }
    }
    std::vector<bool> computed(at(count_), false), kept(at(count_), false);
    for (int p = 0; p <= last; ++p) {
      std::vector<bool> again(at(count_), false), fresh(at(count_), false);
      std::vector<int> roots;
      for (int n = 0; n < count_; ++n) {
        if (!live_[at(n)]) continue;
        const bool store = is(n, InstrKind::Store) && domain(n) == Domain::Full;
        const bool ends =
            is(n, InstrKind::Reduce) || (is(n, InstrKind::Bounded) && domain(n) == Domain::Full);
        if (store ? p == last : ends && phase(n) == p) roots.push_back(n);
      }
      for (const int root : roots) {
        again[at(root)] = fresh[at(root)] = true;
      }
      for (int n = count_ - 1; n >= 0; --n) {
        if (!again[at(n)] && !fresh[at(n)]) continue;
        for (const int operand : operands(n)) {
          if (domain(operand) != Domain::Full) continue;
          if (again[at(n)]) again[at(operand)] = true;
          if (!fresh[at(n)]) continue;
          const bool cheap = is(operand, InstrKind::Load) || is(operand, InstrKind::Index);
          if (computed[at(operand)] && !(cheap && instr(operand).a < 0)) {
            kept[at(operand)] = true;
          } else {
            fresh[at(operand)] = true;
          }
        }
      }
      Phase& target = out_.phases[at(p)];
      const auto collect = [&](const std::vector<bool>& wanted, std::vector<Code>& section) {
        for (const bool stores : {false, true}) {
          for (int n = 0; n < count_; ++n) {
            if (wanted[at(n)] && is(n, InstrKind::Store) == stores)
              section.push_back(codes_[at(n)]);
          }
        }
      };
      collect(fresh, target.kept);
      collect(again, target.again);
      for (int n = 0; n < count_; ++n) {
        if (fresh[at(n)]) computed[at(n)] = true;
        if (fresh[at(n)] && is(n, InstrKind::Reduce)) target.reduces.push_back(codes_[at(n)].site);
      }
    }
    for (int n = 0; n < count_; ++n) {
      if (kept[at(n)]) out_.kept.push_back(n);
    }
  }

  // Most segments of a large table are empty; code that only their elements need is skipped for
  // these.
  void find_inner() {
    std::vector<bool> outside(at(count_), false);
    outside[at(out_.bound)] = true;
    for (int n = count_ - 1; n >= 0; --n) {
      if (!live_[at(n)]) continue;
      const bool ends = is(n, InstrKind::Store) || is(n, InstrKind::Bounded) || phase(n) > 0;
      if (domain(n) != Domain::Full && ends) outside[at(n)] = true;
      if (!outside[at(n)] || is(n, InstrKind::Reduce)) continue;
      for (const int operand : operands(n)) outside[at(operand)] = true;
    }
    std::vector<Code>& par = out_.phases[0].par;
    const auto inner = std::stable_partition(par.begin(), par.end(), [&](const Code& code) {
      return code.out < 0 || outside[at(code.out)];
    });
    out_.phases[0].inner.assign(inner, par.end());
    par.erase(inner, par.end());
  }

  void find_products() {
    for (Phase& target : out_.phases) {
      const std::vector<Code>& body = target.again;
      if (body.size() == 2 && body[0].kind == CodeKind::Load &&
          body[1].kind == CodeKind::Accumulate && body[1].a == body[0].out)
        target.folded = body[0].site;
      if (body.size() != 4 || target.kept.size() != 4 || target.reduces.size() != 1) continue;
      const ReduceSite& reduce = out_.reduces[at(target.reduces[0])];
      if (reduce.op != kernel::ReduceOp::Sum || simd().product[type_index(reduce.dtype)] == nullptr)
        continue;
      const Instr& mul = instr(reduce.value);
      if (mul.kind != InstrKind::Op || mul.op != ScalarOp::mul || mul.a == mul.b) continue;
      const bool loads =
          codes_[at(mul.a)].kind == CodeKind::Load && codes_[at(mul.b)].kind == CodeKind::Load;
      if (!loads || domain(mul.a) != Domain::Full || domain(mul.b) != Domain::Full) continue;
      // The fused sum of products does not keep the product.
      if (std::count(out_.kept.begin(), out_.kept.end(), reduce.value) > 0) continue;
      target.product_a = codes_[at(mul.a)].site;
      target.product_b = codes_[at(mul.b)].site;
    }
  }

  void find_pointwise() {
    out_.pointwise = out_.bound < 0;
    for (int n = 0; n < count_; ++n) {
      if (!live_[at(n)]) continue;
      const CodeKind kind = codes_[at(n)].kind;
      if (kind == CodeKind::Accumulate) {
        out_.pointwise &= folds(out_.reduces[at(codes_[at(n)].site)].op);
      } else if (domain(n) == Domain::Full) {
        out_.pointwise &= kind == CodeKind::Compute || kind == CodeKind::Chain ||
                          kind == CodeKind::Load || kind == CodeKind::Store;
      }
    }
  }

  // Whether all lanes of a block see one number.
  bool is_lone(int n) const {
    return domain(n) == Domain::Uniform || (out_.mode == Mode::Rows && domain(n) == Domain::Par);
  }

  // Finds lone values that some kernel reads in every lane; chains read them from lane 0.
  void find_spread() {
    spread_.assign(at(count_), false);
    for (int m = 0; m < count_; ++m) {
      const bool in_blocks = !is_lone(m) || is(m, InstrKind::Reduce);
      if (!live_[at(m)] || !in_blocks || !chains_[at(m)].empty()) continue;
      for (const int n : operands(m)) spread_[at(n)] = spread_[at(n)] || is_lone(n);
    }
    for (Code& code : out_.uniform) code.spread = spread_[at(code.out)];
    std::vector<bool> read = spread_;
    if (out_.mode == Mode::Lanes) {
      for (int m = 0; m < count_; ++m) {
        const bool in_rows = domain(m) == Domain::Full || is(m, InstrKind::Reduce);
        if (!live_[at(m)] || !in_rows) continue;
        for (const int n : operands(m)) read[at(n)] = read[at(n)] || domain(n) == Domain::Par;
      }
    }
    for (int n = 0; n < count_; ++n) {
      if (!live_[at(n)] || !read[at(n)] || domain(n) == Domain::Uniform) continue;
      out_.phases[at(phase(n) + (is(n, InstrKind::Reduce) ? 1 : 0))].spread.push_back(n);
    }
  }

  // A result may be computed directly into the memory of its Store if no later instruction of the
  // section reads memory that the Store may overwrite.
  void choose_direct_stores() {
    for (Phase& target : out_.phases) {
      std::vector<std::vector<Code>*> sections = {&target.kept, &target.again};
      if (out_.mode == Mode::Map) sections = {&target.par};
      for (std::vector<Code>* section : sections) choose_direct_stores(*section);
    }
  }
  void choose_direct_stores(std::vector<Code>& section) const {
    std::vector<bool> used(at(count_), false);
    for (const Code& store : section) {
      if (store.kind != CodeKind::Store || used[at(store.a)] ||
          instr(out_.sites[at(store.site)]).once)
        continue;
      used[at(store.a)] = true;
      const auto value = std::find_if(section.begin(), section.end(), [&](const Code& code) {
        return (code.kind == CodeKind::Compute || code.kind == CodeKind::Chain) &&
               code.out == store.a;
      });
      if (value == section.end()) continue;
      const bool reads_later = std::any_of(value + 1, section.end(), [&](const Code& code) {
        if (code.kind == CodeKind::Load || code.kind == CodeKind::Gather) return true;
        const std::vector<int> from = operands(code.out);
        return std::any_of(from.begin(), from.end(),
                           [&](int operand) { return is(operand, InstrKind::Load); });
      });
      if (reads_later) continue;
      value->direct = store.site;
      value->only = uses_[at(store.a)] == 1;
    }
  }

  // Rows: a Reduce consumes its operand directly from the chain that computes it.
  void choose_folds() {
    if (out_.mode != Mode::Rows || !simd().chains_fold) return;
    for (Phase& target : out_.phases) {
      for (std::vector<Code>* section : {&target.kept, &target.again}) {
        std::vector<Code> left;
        for (const Code& code : *section) {
          if (!fold_into(left, code)) left.push_back(code);
        }
        *section = std::move(left);
      }
    }
  }

  // Whether one of the preceding chains can take over the Reduce; each chain takes at most one.
  bool fold_into(std::vector<Code>& before, const Code& reduce) const {
    if (reduce.kind != CodeKind::Accumulate || !folds(out_.reduces[at(reduce.site)].op))
      return false;
    const auto value = std::find_if(before.begin(), before.end(), [&](const Code& code) {
      return code.kind == CodeKind::Chain && code.out == reduce.a && code.direct < 0 &&
             code.folds < 0;
    });
    if (value == before.end()) return false;
    value->folds = reduce.site;
    value->only = uses_[at(reduce.a)] == 1;
    return true;
  }

  // Assigns registers by a linear scan in program order, which every section keeps. Only arithmetic
  // may overwrite an operand. Stored values live to the end, where the stores are.
  void assign_registers() {
    out_.registers.assign(at(count_), 0);
    out_.narrow.assign(at(count_), false);
    std::vector<std::uint32_t> free[4];
    const Domain body = out_.mode == Mode::Map ? Domain::Par : Domain::Full;
    std::vector<std::vector<int>> dying(at(count_));
    for (int n = 0; n < count_; ++n) {
      const bool scoped = live_[at(n)] && domain(n) == body && !is(n, InstrKind::Reduce);
      if (scoped && last_use_[at(n)] >= 0 && !stored_[at(n)])
        dying[at(last_use_[at(n)])].push_back(n);
    }
    const auto release = [&](int n) {
      for (const int value : dying[at(n)]) {
        free[size_index(instr(value).dtype)].push_back(out_.registers[at(value)]);
      }
    };
    for (int n = 0; n < count_; ++n) {
      if (!live_[at(n)]) continue;
      if (is(n, InstrKind::Store)) continue;
      const bool arithmetic = is(n, InstrKind::Op) && domain(n) == body;
      if (arithmetic) release(n);
      auto& pool = free[size_index(instr(n).dtype)];
      if (domain(n) == body && !is_lone(n) && !pool.empty() && !is(n, InstrKind::Reduce)) {
        out_.registers[at(n)] = pool.back();
        pool.pop_back();
      } else {
        out_.narrow[at(n)] = is_lone(n) && !spread_[at(n)];
        std::size_t& bytes = out_.narrow[at(n)] ? out_.narrow_bytes : out_.register_bytes;
        out_.registers[at(n)] = static_cast<std::uint32_t>(bytes);
        bytes += at(out_.narrow[at(n)] ? kPad : kBlock) * size_of(instr(n).dtype);
      }
      if (!arithmetic) release(n);
    }
  }

  BlockProgram out_;
  kernel::Analysis analysis_;
  int count_ = 0, stores_ = 0;
  std::vector<bool> live_, stored_, spread_;
  std::vector<int> last_use_, uses_;
  std::vector<std::vector<ChainStep>> chains_;
  std::vector<Code> codes_;
};

}  // namespace

BlockProgram compile(const kernel::Program& program) { return Compiler(program).run(); }

std::uint64_t host_bytes(const BlockProgram& program) {
  std::uint64_t bytes =
      sizeof(BlockProgram) + kernel::host_bytes(program.program) + heap_bytes(program.uniform) +
      heap_bytes(program.uniform_stores) + heap_bytes(program.phases) + heap_bytes(program.steps) +
      heap_bytes(program.sites) + heap_bytes(program.reduces) + heap_bytes(program.scans) +
      heap_bytes(program.kept) + heap_bytes(program.dependence) + heap_bytes(program.registers) +
      heap_bytes(program.narrow);
  for (const Phase& phase : program.phases) {
    for (const auto* code : {&phase.par, &phase.inner, &phase.kept, &phase.again})
      bytes += heap_bytes(*code);
    bytes += heap_bytes(phase.spread) + heap_bytes(phase.reduces);
  }
  return bytes;
}

}  // namespace volta::cpu
