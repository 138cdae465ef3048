// Gradients of operations that are formulas, and evaluation of formulas on tensors.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/inline_vector.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/formula.h"
#include "graph/record/gradient_rules.h"
#include "volta/ops.h"

namespace volta::graph {
namespace {

// A tensor, or a number that has not been turned into a tensor.
struct Term {
  Tensor tensor;
  double number = 0;
  Operand operand(SourceLocation place) const {
    return tensor.defined() ? Operand(tensor, place) : Operand(number, place);
  }
};

// Evaluates a formula on tensors: every step is recorded, with history where gradients flow.
struct TensorAlgebra {
  const std::vector<Term>& names;
  SourceLocation place;

  static Term number(double value) { return {{}, value}; }
  Term name(int i) const { return names[static_cast<std::size_t>(i)]; }
  Term op(kernel::ScalarOp op, const std::array<Term, 3>& in) const {
    const auto id = static_cast<OpId>(op);
    switch (kernel::info(op).arity) {
      case 1:
        return {unary(id, in[0].tensor, place)};
      case 2:
        return {binary(id, in[0].operand(place), in[1].operand(place))};
      default:
        return {where(in[0].tensor, in[1].operand(place), in[2].operand(place))};
    }
  }
};

}  // namespace

Tensor evaluate(const Formula& formula, std::span<const Operand> values, SourceLocation place) {
  std::vector<Term> names;
  for (const Operand& value : values) {
    names.push_back(value.is_scalar() ? Term{{}, value.scalar().value()} : Term{value.tensor()});
  }
  return formula.evaluate<Term>(TensorAlgebra{names, place}).tensor;
}

void vjp::formula(Vjp& v) {
  const ParsedFormula& formula = parsed_formula(v.op());
  const auto value_of = [&](int name) -> const Tensor& {
    return name == formula.g() ? v.gradient() : name == formula.y() ? v.output() : v.input(name);
  };
  for (std::size_t i = 0; i < formula.gradients.size(); ++i) {
    if (!v.needs(static_cast<int>(i))) continue;
    const Formula& gradient = formula.gradients[i];
    if (const std::optional<double> number = gradient.number()) {
      v.give(static_cast<int>(i), filled(v.output_shape(), *number, v.dtype(0), v.device(0)));
      continue;
    }
    const std::vector<int>& used = formula.uses[i];
    if (v.with_history()) {  // records differentiable operations, for gradients of gradients
      std::vector<Term> names(formula.names.size());
      names.back().tensor = v.gradient();
      for (const int name : used) names[static_cast<std::size_t>(name)].tensor = value_of(name);
      v.give(static_cast<int>(i), gradient.evaluate<Term>(TensorAlgebra{names, v.place()}).tensor);
      continue;
    }
    InlineVector<Borrowed, 8> inputs;
    inputs.emplace_back(v.gradient());
    for (const int name : used) inputs.emplace_back(value_of(name));
    const std::int64_t attrs[] = {static_cast<std::int64_t>(v.op()), static_cast<std::int64_t>(i)};
    v.give(static_cast<int>(i), apply(OpId::formula_grad, inputs.span(), attrs, v.output_shape(),
                                      v.gradient().dtype(), v.place()));
  }
}

}  // namespace volta::graph
