// The table of expansions. Operations that are formulas need no row.
#include <array>
#include <cstddef>

#include "graph/record/op.h"
#include "plan/expand/rules.h"

namespace volta::graph {
namespace {

constexpr std::array<plan::Expansion, kOps> make_table() {
  std::array<plan::Expansion, kOps> table{};
  const auto row = [&](OpId id, plan::Expansion expansion) {
    table[static_cast<std::size_t>(id)] = expansion;
  };
  row(OpId::formula_grad, expand::formula_grad);
  row(OpId::mean, expand::mean);
  row(OpId::sum_to, expand::sum_to);
  row(OpId::max_along, expand::max_along);
  row(OpId::min_along, expand::min_along);
  row(OpId::var, expand::var);
  row(OpId::std, expand::std);
  row(OpId::norm, expand::norm);
  row(OpId::logsumexp, expand::logsumexp);
  row(OpId::concat, expand::concat);
  row(OpId::softmax, expand::softmax);
  row(OpId::log_softmax, expand::log_softmax);
  row(OpId::matmul, expand::matmul);
  row(OpId::linear, expand::linear);
  row(OpId::conv, expand::conv);
  row(OpId::conv_input_grad, expand::conv_input_grad);
  row(OpId::conv_weight_grad, expand::conv_weight_grad);
  row(OpId::max_pool, expand::max_pool);
  row(OpId::max_pool_grad, expand::max_pool_grad);
  row(OpId::max_pool_at, expand::max_pool_at);
  row(OpId::avg_pool, expand::avg_pool);
  row(OpId::avg_pool_grad, expand::avg_pool_grad);
  row(OpId::resample, expand::resample);
  row(OpId::resample_grad, expand::resample_grad);
  row(OpId::attention, expand::attention);
  row(OpId::attention_grad, expand::attention_grad);
  row(OpId::recurrent, expand::recurrent);
  row(OpId::recurrent_grad, expand::recurrent_grad);
  row(OpId::mse_loss, expand::mse_loss);
  row(OpId::cross_entropy, expand::cross_entropy);
  row(OpId::nll_loss, expand::nll_loss);
  row(OpId::layer_norm, expand::layer_norm);
  row(OpId::batch_stats, expand::batch_stats);
  row(OpId::batch_norm, expand::batch_norm);
  row(OpId::batch_norm_grad, expand::batch_norm_grad);
  row(OpId::dropout, expand::dropout);
  row(OpId::normal, expand::normal);
  row(OpId::scatter_rows, expand::scatter_rows);
  row(OpId::index, expand::index);
  row(OpId::index_sum, expand::index_sum);
  row(OpId::index_put, expand::index_put);
  row(OpId::take_along, expand::take_along);
  row(OpId::gather_along, expand::take_along);
  row(OpId::add_along, expand::add_along);
  row(OpId::put_along, expand::put_along);
  row(OpId::select_rows, expand::select_rows);
  row(OpId::select_at, expand::select_at);
  row(OpId::put_slice, expand::put_slice);
  row(OpId::tril, expand::tril);
  row(OpId::triu, expand::triu);
  row(OpId::one_hot, expand::one_hot);
  row(OpId::true_positions, expand::true_positions);
  row(OpId::nonzero, expand::nonzero);
  row(OpId::rows_at_true, expand::rows_at_true);
  row(OpId::rows_to_true, expand::rows_to_true);
  row(OpId::cumsum, expand::cumsum);
  row(OpId::fold, expand::fold);
  row(OpId::sort, expand::sort);
  row(OpId::sgd, expand::sgd);
  row(OpId::adam, expand::adam);
  row(OpId::rmsprop, expand::rmsprop);
  row(OpId::adagrad, expand::adagrad);
  row(OpId::lion, expand::lion);
  row(OpId::muon, expand::muon);
  row(OpId::any_nonfinite, expand::any_nonfinite);
  row(OpId::total_norm, expand::total_norm);
  return table;
}

constinit const std::array<plan::Expansion, kOps> expansions = make_table();

}  // namespace

plan::Expansion expansion_of(OpId op) {
  if (is_scalar_op(op)) return nullptr;
  if (op_info(op).formula != nullptr) return expand::formula;
  return expansions[static_cast<std::size_t>(op)];
}

}  // namespace volta::graph
