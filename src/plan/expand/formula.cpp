// Operations that are formulas, and the gradients of formulas, as values of the planner.
#include "graph/record/formula.h"
#include "plan/expand/rules.h"

namespace volta::graph {
namespace {

// Evaluates a formula over the planner's values, in the dtype of its tensors.
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

// Expands the result: a formula that does not use all of its parameters may give a smaller shape.
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

// Inputs: g, then the values that the gradient's formula uses. Attributes: the operation, and which
// of its parameters to differentiate by.
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

}  // namespace volta::graph
