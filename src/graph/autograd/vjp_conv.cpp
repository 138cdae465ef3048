// Gradients of convolutions. The three nodes are gradients of each other, so gradients of any order
// work.
#include "graph/attributes/convolution.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"

namespace volta::graph::vjp {
namespace {

Tensor convolution(const Vjp& v, OpId op, const Tensor& a, const Tensor& b, const Shape& shape) {
  const Borrowed inputs[2] = {a, b};
  return apply(op, inputs, v.attrs(), shape, node_of(a)->dtype, v.place());
}

// The bias is added to every pixel of its channel, so its gradient is a sum over pixels.
void give_bias(Vjp& v) {
  if (v.inputs() < 3 || !v.needs(2)) return;
  const std::int64_t pixels[] = {0, 2, 3};
  v.give(2, sum_axes(v.gradient(), pixels, false, v.place()));
}

}  // namespace

// Inputs: x, weight, bias.
void conv(Vjp& v) {
  const Tensor& g = v.gradient();
  if (v.needs(0)) v.give(0, convolution(v, OpId::conv_input_grad, g, v.input(1), v.shape(0)));
  if (v.needs(1)) v.give(1, convolution(v, OpId::conv_weight_grad, v.input(0), g, v.shape(1)));
  give_bias(v);
}

// Inputs: gradient of a convolution's result, weight, bias.
void conv_input_grad(Vjp& v) {
  const Tensor& g = v.gradient();
  if (v.needs(0)) v.give(0, convolution(v, OpId::conv, g, v.input(1), v.shape(0)));
  if (v.needs(1)) v.give(1, convolution(v, OpId::conv_weight_grad, g, v.input(0), v.shape(1)));
  give_bias(v);
}

// Inputs: input of a convolution, gradient of its result.
void conv_weight_grad(Vjp& v) {
  const Tensor& g = v.gradient();
  if (v.needs(0)) v.give(0, convolution(v, OpId::conv_input_grad, v.input(1), g, v.shape(0)));
  if (v.needs(1)) v.give(1, convolution(v, OpId::conv, v.input(0), g, v.shape(1)));
}

}  // namespace volta::graph::vjp
