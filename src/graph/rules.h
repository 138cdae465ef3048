// The rules the operation table names: gradients (vjp*.cpp) and expansions (expand*.cpp).
#pragma once

#include "graph/vjp.h"
#include "plan/ir.h"

namespace volta::graph {

namespace vjp {
void formula(Vjp&);
void zero(Vjp&);
void neg(Vjp&);
void abs(Vjp&);
void exp(Vjp&);
void expm1(Vjp&);
void log(Vjp&);
void log1p(Vjp&);
void sqrt(Vjp&);
void rsqrt(Vjp&);
void sin(Vjp&);
void cos(Vjp&);
void tanh(Vjp&);
void erf(Vjp&);
void add(Vjp&);
void sub(Vjp&);
void mul(Vjp&);
void div(Vjp&);
void pow(Vjp&);
void maximum(Vjp&);
void minimum(Vjp&);
void where(Vjp&);
void cast(Vjp&);
void reshape(Vjp&);
void permute(Vjp&);
void shrink(Vjp&);
void pad(Vjp&);
void stride(Vjp&);
void unfold(Vjp&);
void fold(Vjp&);
void sum(Vjp&);
void prod(Vjp&);
void extremum(Vjp&);
void extremum_along(Vjp&);
void var(Vjp&);
void std(Vjp&);
void norm(Vjp&);
void logsumexp(Vjp&);
void concat(Vjp&);
void gather(Vjp&);
void matmul(Vjp&);
void to_device(Vjp&);
void function(Vjp&);
void function_output(Vjp&);
void mean(Vjp&);
void sum_to(Vjp&);
void softmax(Vjp&);
void log_softmax(Vjp&);
void linear(Vjp&);
void conv(Vjp&);
void conv_input_grad(Vjp&);
void conv_weight_grad(Vjp&);
void attention(Vjp&);
void mse_loss(Vjp&);
void cross_entropy(Vjp&);
void layer_norm(Vjp&);
void dropout(Vjp&);
void scatter_rows(Vjp&);
// Indexing (vjp_index.cpp).
void take_along(Vjp&);
void index(Vjp&);
void index_sum(Vjp&);
void index_put(Vjp&);
void add_along(Vjp&);
void put_along(Vjp&);
void select_rows(Vjp&);
void select_at(Vjp&);
void put_slice(Vjp&);
void tril(Vjp&);
void triu(Vjp&);
void rows_at_true(Vjp&);
void rows_to_true(Vjp&);
void cumsum(Vjp&);
void sort(Vjp&);
}  // namespace vjp

namespace expand {
void formula(plan::Lowering&);
void formula_grad(plan::Lowering&);
void mean(plan::Lowering&);
void sum_to(plan::Lowering&);
void max_along(plan::Lowering&);
void min_along(plan::Lowering&);
void var(plan::Lowering&);
void std(plan::Lowering&);
void norm(plan::Lowering&);
void logsumexp(plan::Lowering&);
void concat(plan::Lowering&);
void softmax(plan::Lowering&);
void log_softmax(plan::Lowering&);
void linear(plan::Lowering&);
void conv(plan::Lowering&);
void conv_input_grad(plan::Lowering&);
void conv_weight_grad(plan::Lowering&);
void attention(plan::Lowering&);
void attention_grad(plan::Lowering&);
void mse_loss(plan::Lowering&);
void cross_entropy(plan::Lowering&);
void layer_norm(plan::Lowering&);
void dropout(plan::Lowering&);
void normal(plan::Lowering&);
void scatter_rows(plan::Lowering&);
// Indexing (expand_index.cpp).
void take_along(plan::Lowering&);
void index(plan::Lowering&);
void index_sum(plan::Lowering&);
void index_put(plan::Lowering&);
void add_along(plan::Lowering&);
void put_along(plan::Lowering&);
void select_rows(plan::Lowering&);
void select_at(plan::Lowering&);
void put_slice(plan::Lowering&);
void tril(plan::Lowering&);
void triu(plan::Lowering&);
void rows_at_true(plan::Lowering&);
void rows_to_true(plan::Lowering&);
void one_hot(plan::Lowering&);
void true_positions(plan::Lowering&);
void nonzero(plan::Lowering&);
void cumsum(plan::Lowering&);
void fold(plan::Lowering&);
void sort(plan::Lowering&);
void sgd(plan::Lowering&);
void adam(plan::Lowering&);
}  // namespace expand

}  // namespace volta::graph
