// Operations that are formulas: their expansion into the planner's values, and their gradients.
#include "graph/apply.h"
#include "graph/formula.h"
#include "graph/rules.h"
#include "volta/ops.h"

namespace volta::graph {
namespace {

// The formula over the planner's values, in the dtype of its tensors.
struct PlanAlgebra {
  plan::Lowering& lowering;
  DType dtype;
  const std::vector<plan::Expr>& names;

  plan::Expr number(double value) const { return lowering.constant(value, dtype); }
  plan::Expr name(int i) const { return names[static_cast<std::size_t>(i)]; }
  plan::Expr op(kernel::ScalarOp op, const std::array<plan::Expr, 3>& in) const {
    switch (kernel::info(op).arity) {
      case 1:
        return lowering.unary(op, in[0]);
      case 2:
        return lowering.binary(op, in[0], in[1]);
      default:
        return lowering.where(in[0], in[1], in[2]);
    }
  }
};

// A tensor, or a number that is still one.
struct Term {
  Tensor tensor;
  double number = 0;
  Operand operand(Place place) const {
    return tensor.defined() ? Operand(tensor, place) : Operand(number, place);
  }
};

// The formula over tensors: every step is recorded, with its history where gradients flow.
struct TensorAlgebra {
  const std::vector<Term>& names;
  Place place;

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

// A formula that does not use all of its parameters may be smaller than its result.
void out_as_recorded(plan::Lowering& l, plan::Expr value) {
  l.out(value.shape() == l.shape() ? value : l.expand(value, l.shape()));
}

}  // namespace

void expand::formula(plan::Lowering& l) {
  const ParsedFormula& formula = parsed_formula(l.op());
  std::vector<plan::Expr> names;
  const DType dtype = l.in(0).dtype();
  for (int i = 0; i < l.inputs(); ++i) names.push_back(l.in(i));
  out_as_recorded(l, formula.value.evaluate<plan::Expr>(PlanAlgebra{l, dtype, names}));
}

// g, then what its formula uses. attrs: the operation, which of its parameters
void expand::formula_grad(plan::Lowering& l) {
  const ParsedFormula& formula = parsed_formula(static_cast<OpId>(l.attrs()[0]));
  const auto which = static_cast<std::size_t>(l.attrs()[1]);
  const Formula& gradient = formula.gradients[which];
  std::vector<plan::Expr> names(formula.names.size());
  const DType dtype = l.in(0).dtype();
  int input = 0;
  names.back() = l.in(input++);
  for (const int name : formula.uses[which]) names[static_cast<std::size_t>(name)] = l.in(input++);
  out_as_recorded(l, gradient.evaluate<plan::Expr>(PlanAlgebra{l, dtype, names}));
}

Tensor evaluate(const Formula& formula, std::span<const Operand> values, Place place) {
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
    if (v.with_history()) {  // the gradient has gradients: it is recorded in operations that do
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
