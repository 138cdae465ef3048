// The gradient rules in the table of operations. graph/autograd defines them (vjp*.cpp).
#pragma once

namespace volta::graph {

class Vjp;

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
void max_pool(Vjp&);
void max_pool_grad(Vjp&);
void max_pool_at(Vjp&);
void avg_pool(Vjp&);
void avg_pool_grad(Vjp&);
void resample(Vjp&);
void resample_grad(Vjp&);
void attention(Vjp&);
void mse_loss(Vjp&);
void cross_entropy(Vjp&);
void nll_loss(Vjp&);
void layer_norm(Vjp&);
void batch_norm(Vjp&);
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

}  // namespace volta::graph
