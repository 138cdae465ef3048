// Gradients of pooling and resizing. All nodes except max_pool are linear, and each is the gradient
// of another, so gradients of any order work.
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"

namespace volta::graph::vjp {
namespace {

// Gives the linear operation `op`, applied to the gradient and to the inputs after the first.
void give_linear(Vjp& v, OpId op) {
  Tensor inputs[3] = {v.gradient()};
  for (int i = 1; i < v.inputs(); ++i) inputs[i] = v.input(i);
  v.give(0, apply(op, std::span<const Tensor>(inputs, static_cast<std::size_t>(v.inputs())),
                  v.attrs(), v.shape(0), v.dtype(0), v.place()));
}

}  // namespace

void max_pool(Vjp& v) {
  v.give(0, apply(OpId::max_pool_grad, std::array<Tensor, 2>{v.gradient(), v.auxiliary(0)},
                  v.attrs(), v.shape(0), v.dtype(0), v.place()));
}
void max_pool_grad(Vjp& v) { give_linear(v, OpId::max_pool_at); }
void max_pool_at(Vjp& v) { give_linear(v, OpId::max_pool_grad); }
void avg_pool(Vjp& v) { give_linear(v, OpId::avg_pool_grad); }
void avg_pool_grad(Vjp& v) { give_linear(v, OpId::avg_pool); }
void resample(Vjp& v) { give_linear(v, OpId::resample_grad); }
void resample_grad(Vjp& v) { give_linear(v, OpId::resample); }

}  // namespace volta::graph::vjp
