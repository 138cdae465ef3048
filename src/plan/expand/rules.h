// The expansions of composed operations into primitives, and the table of them.
#pragma once

#include "graph/record/op.h"
#include "plan/lower/lowering.h"

namespace volta::graph {

// Returns the expansion of an operation; null if the operation is a primitive of the planner.
VOLTA_BACKEND_API plan::Expansion expansion_of(OpId op);

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
void matmul(plan::Lowering&);
void linear(plan::Lowering&);
void conv(plan::Lowering&);
void conv_input_grad(plan::Lowering&);
void conv_weight_grad(plan::Lowering&);
void max_pool(plan::Lowering&);
void max_pool_grad(plan::Lowering&);
void max_pool_at(plan::Lowering&);
void avg_pool(plan::Lowering&);
void avg_pool_grad(plan::Lowering&);
void resample(plan::Lowering&);
void resample_grad(plan::Lowering&);
void attention(plan::Lowering&);
void attention_grad(plan::Lowering&);
void recurrent(plan::Lowering&);
void recurrent_grad(plan::Lowering&);
void mse_loss(plan::Lowering&);
void cross_entropy(plan::Lowering&);
void nll_loss(plan::Lowering&);
void layer_norm(plan::Lowering&);
void batch_stats(plan::Lowering&);
void batch_norm(plan::Lowering&);
void batch_norm_grad(plan::Lowering&);
void dropout(plan::Lowering&);
void normal(plan::Lowering&);
void scatter_rows(plan::Lowering&);
// Indexing (plan/expand/index.cpp).
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
void rmsprop(plan::Lowering&);
void adagrad(plan::Lowering&);
void lion(plan::Lowering&);
void muon(plan::Lowering&);
void any_nonfinite(plan::Lowering&);
void total_norm(plan::Lowering&);
}  // namespace expand

}  // namespace volta::graph
