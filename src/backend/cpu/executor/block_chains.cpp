// Finds chains: instructions are visited in order, and each extends the chain of one of its
// operands.
#include "backend/cpu/executor/block_chains.h"

#include <optional>
#include <utility>

namespace volta::cpu {
namespace {

using kernel::Domain;
using kernel::Instr;
using kernel::InstrKind;
using kernel::ScalarOp;

constexpr std::size_t at(int n) { return static_cast<std::size_t>(n); }
// Longer chains gain nothing and would hide the last uses of their operands from register
// assignment.
constexpr std::size_t kMostSteps = 24;

// The chain step for an operation whose first or second operand is the chain's value.
std::optional<ChainOp> step_of(ScalarOp op, bool second) {
  switch (op) {
    case ScalarOp::neg:
      return ChainOp::Neg;
    case ScalarOp::abs:
      return ChainOp::Abs;
    case ScalarOp::sqrt:
      return ChainOp::Sqrt;
    case ScalarOp::rsqrt:
      return ChainOp::Rsqrt;
    case ScalarOp::exp:
      return ChainOp::Exp;
    case ScalarOp::log:
      return ChainOp::Log;
    case ScalarOp::tanh:
      return ChainOp::Tanh;
    case ScalarOp::add:
      return ChainOp::Add;
    case ScalarOp::sub:
      return second ? ChainOp::SubFrom : ChainOp::Sub;
    case ScalarOp::mul:
      return ChainOp::Mul;
    case ScalarOp::div:
      return second ? ChainOp::DivInto : ChainOp::Div;
    case ScalarOp::maximum:
      return second ? ChainOp::MaximumOf : ChainOp::Maximum;
    case ScalarOp::minimum:
      return second ? ChainOp::MinimumOf : ChainOp::Minimum;
    default:
      return std::nullopt;
  }
}

// The fused step for a product followed by a sum or difference.
std::optional<ChainOp> after_product(ChainOp op) {
  switch (op) {
    case ChainOp::Add:
      return ChainOp::MulAdd;
    case ChainOp::Sub:
      return ChainOp::MulSub;
    case ChainOp::SubFrom:
      return ChainOp::MulSubFrom;
    default:
      return std::nullopt;
  }
}

// The fused step for a sum or difference whose other operand is a product.
std::optional<ChainOp> with_product(ChainOp op) {
  switch (op) {
    case ChainOp::Add:
      return ChainOp::AddProduct;
    case ChainOp::Sub:
      return ChainOp::SubProduct;
    case ChainOp::SubFrom:
      return ChainOp::SubFromProduct;
    default:
      return std::nullopt;
  }
}

class Finder {
 public:
  Finder(const kernel::Program& program, const kernel::Analysis& analysis,
         const std::vector<std::uint64_t>& dependence, bool rows, std::vector<bool>& live)
      : program_(program), analysis_(analysis), dependence_(dependence), rows_(rows), live_(live) {
    uses_.assign(program.instrs.size(), 0);
    for (std::size_t n = 0; n < program.instrs.size(); ++n) {
      const Instr& self = program.instrs[n];
      for (const int operand : {self.a, self.b, self.c}) {
        if (operand >= 0 && live[n]) ++uses_[at(operand)];
      }
    }
    chains_.resize(program.instrs.size());
    absorbed_.assign(program.instrs.size(), false);
    for (int axis = 0; axis < static_cast<int>(program.axes.size()); ++axis) {
      if (program.axes[at(axis)].role == kernel::Role::Par) last_par_ = axis;
    }
  }

  std::vector<std::vector<ChainStep>> run() {
    for (int n = 0; n < static_cast<int>(program_.instrs.size()); ++n) {
      if (live_[at(n)] && joins(n)) chains_[at(n)] = chain_of(n);
      if (live_[at(n)] && chooses(n)) chains_[at(n)] = choice_of(n);
    }
    drop_unused();
    return std::move(chains_);
  }

 private:
  const Instr& instr(int n) const { return program_.instrs[at(n)]; }
  Domain domain(int n) const { return analysis_.instrs[at(n)].domain; }

  bool joins(int n) const {
    const Instr& self = instr(n);
    return self.kind == InstrKind::Op && step_of(self.op, false).has_value() &&
           simd().chain[type_index(self.dtype)] != nullptr;
  }

  // Whether n is a `where` whose comparison has no other reader.
  bool chooses(int n) const {
    const Instr& self = instr(n);
    if (self.kind != InstrKind::Op || self.op != ScalarOp::where ||
        simd().chain[type_index(self.dtype)] == nullptr)
      return false;
    const Instr& condition = instr(self.a);
    return condition.kind == InstrKind::Op &&
           (condition.op == ScalarOp::lt || condition.op == ScalarOp::le) &&
           instr(condition.a).dtype == self.dtype && uses_[at(self.a)] == 1 &&
           domain(self.a) == domain(n) && dependence_[at(self.a)] == dependence_[at(n)];
  }
  std::vector<ChainStep> choice_of(int n) {
    const Instr &self = instr(n), &condition = instr(self.a);
    const bool less = condition.op == ScalarOp::lt;
    const bool same = condition.a == condition.b;
    const bool first = !same && extends(condition.a, n),
               second = !same && !first && extends(condition.b, n);
    const int main = second ? condition.b : condition.a, other = second ? condition.a : condition.b;
    std::vector<ChainStep> steps;
    if (first || second) {
      steps = chains_[at(main)];
    } else {
      steps.push_back(step(ChainOp::Load, main, n));
    }
    const ChainOp op = second ? (less ? ChainOp::ChooseGt : ChainOp::ChooseGe)
                              : (less ? ChainOp::ChooseLt : ChainOp::ChooseLe);
    steps.push_back({.op = op,
                     .a_uniform = uniform(self.b, n),
                     .b_uniform = uniform(self.c, n),
                     .c_uniform = uniform(other, n),
                     .a = self.b,
                     .b = self.c,
                     .c = other});
    absorbed_[at(self.a)] = true;
    return steps;
  }

  // Whether instruction n may continue the chain of its operand: n is the only reader, or computing
  // the chain again costs no more than loading its result.
  bool extends(int operand, int n) const {
    if (operand < 0 || chains_[at(operand)].empty() || domain(operand) != domain(n) ||
        repeats(operand, n))
      return false;
    const int own = instr(n).a == instr(n).b ? 2 : 1;
    return (uses_[at(operand)] == own && chains_[at(operand)].size() < kMostSteps &&
            analysis_.instrs[at(operand)].phase == analysis_.instrs[at(n)].phase) ||
           is_trivial(operand);
  }
  // Whether the operand varies along the rows of a Map, but over fewer axes than n, so that it may
  // be computed once for many rows.
  bool repeats(int operand, int n) const {
    return domain(n) == Domain::Par && last_par_ >= 0 &&
           dependence_[at(operand)] != dependence_[at(n)] &&
           (dependence_[at(operand)] >> last_par_ & 1) != 0;
  }
  bool is_trivial(int n) const {
    const std::vector<ChainStep>& steps = chains_[at(n)];
    if (steps.size() != 2 || steps[0].a_uniform) return false;
    switch (steps[1].op) {
      case ChainOp::Neg:
      case ChainOp::Abs:
        return true;
      case ChainOp::Add:
      case ChainOp::Sub:
      case ChainOp::SubFrom:
      case ChainOp::Mul:
        return steps[1].a_uniform;
      default:
        return false;
    }
  }

  bool uniform(int operand, int n) const {
    return domain(operand) == Domain::Uniform ||
           (rows_ && domain(n) == Domain::Full && domain(operand) == Domain::Par);
  }

  ChainStep step(ChainOp op, int a, int n) const {
    return {.op = op, .a_uniform = uniform(a, n), .a = a, .b = a};
  }

  bool is_product(int n) const {
    return chains_[at(n)].size() == 2 && (chains_[at(n)].back().op == ChainOp::Mul ||
                                          chains_[at(n)].back().op == ChainOp::Square);
  }

  std::vector<ChainStep> chain_of(int n) {
    const Instr& self = instr(n);
    const bool square = self.op == ScalarOp::mul && self.a == self.b;
    const bool first = extends(self.a, n), second = self.a != self.b && extends(self.b, n);
    // The longer chain continues; a lone product is better fused into the other operand's step.
    const bool from_second =
        second && (!first || chains_[at(self.b)].size() > chains_[at(self.a)].size());
    const int main = from_second ? self.b : self.a, other = from_second ? self.a : self.b;
    std::vector<ChainStep> steps;
    // An operation of a value with itself cannot continue the value's chain, except for the square.
    if ((from_second || first) && (square || self.a != self.b)) {
      steps = chains_[at(main)];
    } else {
      steps.push_back(step(ChainOp::Load, main, n));
    }
    const ChainOp op = square ? ChainOp::Square : *step_of(self.op, from_second);
    if (other < 0 || square) {
      steps.push_back({.op = op, .a = steps.front().a, .b = steps.front().a});
    } else if (with_product(op).has_value() && extends(other, n) && is_product(other)) {
      const std::vector<ChainStep>& product = chains_[at(other)];
      steps.push_back({.op = *with_product(op),
                       .a_uniform = product[0].a_uniform,
                       .b_uniform = product[1].op == ChainOp::Square ? product[0].a_uniform
                                                                     : product[1].a_uniform,
                       .a = product[0].a,
                       .b = product[1].a});
    } else if (after_product(op).has_value() && steps.back().op == ChainOp::Mul) {
      steps.back().op = *after_product(op);
      steps.back().b = other;
      steps.back().b_uniform = uniform(other, n);
    } else {
      steps.push_back(step(op, other, n));
    }
    return steps;
  }

  // Drops chains that were merged into others and have no other reader.
  void drop_unused() {
    std::vector<bool> used(chains_.size(), false);
    for (std::size_t n = chains_.size(); n-- > 0;) {
      if (!live_[n]) continue;
      if ((!chains_[n].empty() || absorbed_[n]) && !used[n]) {
        live_[n] = false;
        chains_[n].clear();
        continue;
      }
      for (const ChainStep& step : chains_[n]) {
        used[at(step.a)] = used[at(step.b)] = true;
        if (step.c >= 0) used[at(step.c)] = true;
      }
      if (!chains_[n].empty()) continue;
      for (const int operand : {program_.instrs[n].a, program_.instrs[n].b, program_.instrs[n].c}) {
        if (operand >= 0) used[at(operand)] = true;
      }
    }
  }

  const kernel::Program& program_;
  const kernel::Analysis& analysis_;
  const std::vector<std::uint64_t>& dependence_;
  bool rows_;
  std::vector<bool>& live_;
  std::vector<int> uses_;
  std::vector<std::vector<ChainStep>> chains_;
  std::vector<bool> absorbed_;  // comparisons that belong to a chain's `where`
  int last_par_ = -1;
};

}  // namespace

std::vector<std::vector<ChainStep>> find_chains(const kernel::Program& program,
                                                const kernel::Analysis& analysis,
                                                const std::vector<std::uint64_t>& dependence,
                                                bool rows, std::vector<bool>& live) {
  return Finder(program, analysis, dependence, rows, live).run();
}

}  // namespace volta::cpu
