// The table of operations: the values that each saves for its gradient, and its gradient rule.
// Elementwise operations are rows of elementwise.def. Expansions into primitives are in
// plan/expand/table.cpp.
#include <array>

#include "graph/record/formula.h"
#include "graph/record/gradient_rules.h"
#include "graph/record/op.h"

namespace volta::graph {
namespace {

namespace formulas {
#define VOLTA_ELEMENTWISE(name, function, autocast, comment, parameters, value, ...) \
  constexpr FormulaText name{parameters, value, {__VA_ARGS__}};
#define VOLTA_SYNONYM(...)
#include "graph/record/elementwise.def"
}  // namespace formulas

constexpr auto gradient_of(const FormulaText& text) {
  return text.gradients[0] == nullptr ? nullptr : vjp::formula;
}

constexpr std::array<Op, kOps> make_table() {
  std::array<Op, kOps> table{};
  const auto row = [&](OpId id, const char* name, SavesByInput saves, void (*vjp)(Vjp&)) {
    table[static_cast<std::size_t>(id)] = {id, name, saves, vjp};
  };
  constexpr auto both = kSavesInput0 | kSavesInput1;
  // The gradient of each factor needs the other one, that of a bias nothing.
  constexpr SavesByInput other_factor(kSavesInput1, kSavesInput0, kSavesNothing);
  // Elementwise operations. Primitives that have a gradient rule have no formula for others to
  // call.
#define VOLTA_ELEMENTWISE(name, function, rule, ...)                          \
  table[static_cast<std::size_t>(OpId::name)] = {OpId::name,                  \
                                                 #name,                       \
                                                 saves_of(formulas::name),    \
                                                 gradient_of(formulas::name), \
                                                 &formulas::name,             \
                                                 AutocastRule::rule};
#define VOLTA_RULE(name, function, rule, ...)                                                   \
  table[static_cast<std::size_t>(OpId::name)] = {OpId::name, #name,   saves_of(formulas::name), \
                                                 vjp::name,  nullptr, AutocastRule::rule};
#define VOLTA_SYNONYM(...)
#include "graph/record/elementwise.def"
  row(OpId::where, "where", kSavesInput0, vjp::where);
  // Other primitives.
  row(OpId::cast, "cast", kSavesNothing, vjp::cast);
  row(OpId::constant, "constant", kSavesNothing, nullptr);
  row(OpId::iota, "iota", kSavesNothing, nullptr);
  row(OpId::philox, "random", kSavesNothing, nullptr);
  row(OpId::reshape, "reshape", kSavesNothing, vjp::reshape);
  row(OpId::permute, "permute", kSavesNothing, vjp::permute);
  row(OpId::expand, "expand", kSavesNothing, vjp::add);
  row(OpId::shrink, "shrink", kSavesNothing, vjp::shrink);
  row(OpId::pad, "pad", kSavesNothing, vjp::pad);
  row(OpId::stride, "slice", kSavesNothing, vjp::stride);
  row(OpId::unfold, "unfold", kSavesNothing, vjp::unfold);
  row(OpId::sum, "sum", kSavesNothing, vjp::sum);
  row(OpId::prod, "prod", kSavesInput0, vjp::prod);
  row(OpId::max, "max", kSavesInput0 | kSavesOutput, vjp::extremum);
  row(OpId::min, "min", kSavesInput0 | kSavesOutput, vjp::extremum);
  row(OpId::argmax, "argmax", kSavesNothing, nullptr);
  row(OpId::argmin, "argmin", kSavesNothing, nullptr);
  row(OpId::gather, "embedding", kSavesInput1, vjp::gather);
  row(OpId::matmul, "matmul", other_factor, vjp::matmul);
  row(OpId::output, "output", kSavesNothing, nullptr);
  row(OpId::to_device, "to", kSavesNothing, vjp::to_device);
  row(OpId::function, "function", kSavesNothing, vjp::function);
  row(OpId::function_output, "function", kSavesNothing, vjp::function_output);
  // Composed operations.
  row(OpId::formula_grad, "gradient", kSavesNothing, nullptr);
  row(OpId::mean, "mean", kSavesNothing, vjp::mean);
  row(OpId::sum_to, "sum_to", kSavesNothing, vjp::sum_to);
  row(OpId::max_along, "max", kSavesAuxiliary, vjp::extremum_along);
  row(OpId::min_along, "min", kSavesAuxiliary, vjp::extremum_along);
  row(OpId::var, "var", kSavesInput0, vjp::var);
  row(OpId::std, "std", kSavesInput0 | kSavesOutput, vjp::std);
  row(OpId::norm, "norm", kSavesInput0 | kSavesOutput, vjp::norm);
  row(OpId::logsumexp, "logsumexp", kSavesInput0 | kSavesOutput, vjp::logsumexp);
  row(OpId::concat, "concat", kSavesNothing, vjp::concat);
  row(OpId::softmax, "softmax", kSavesOutput, vjp::softmax);
  row(OpId::log_softmax, "log_softmax", kSavesOutput, vjp::log_softmax);
  row(OpId::linear, "linear", other_factor, vjp::linear);
  row(OpId::conv, "conv", other_factor, vjp::conv);
  row(OpId::conv_input_grad, "conv_transpose", other_factor, vjp::conv_input_grad);
  row(OpId::conv_weight_grad, "conv_weight_grad", other_factor, vjp::conv_weight_grad);
  row(OpId::max_pool, "max_pool", kSavesAuxiliary, vjp::max_pool);
  row(OpId::max_pool_grad, "max_pool_grad", kSavesInput1, vjp::max_pool_grad);
  row(OpId::max_pool_at, "max_pool_at", kSavesInput1, vjp::max_pool_at);
  row(OpId::avg_pool, "avg_pool", kSavesNothing, vjp::avg_pool);
  row(OpId::avg_pool_grad, "avg_pool_grad", kSavesNothing, vjp::avg_pool_grad);
  row(OpId::resample, "resample", kSavesInput1 | kSavesInput2, vjp::resample);
  row(OpId::resample_grad, "resample_grad", kSavesInput1 | kSavesInput2, vjp::resample_grad);
  row(OpId::attention, "attention", 0xFFu | kSavesOutput | kSavesAuxiliary, vjp::attention);
  row(OpId::attention_grad, "attention_grad", kSavesNothing, nullptr);
  row(OpId::recurrent, "recurrent", kSavesNothing, nullptr);
  row(OpId::recurrent_grad, "recurrent_grad", kSavesNothing, nullptr);
  row(OpId::mse_loss, "mse_loss", both, vjp::mse_loss);
  row(OpId::cross_entropy, "cross_entropy", 0xFu | kSavesAuxiliary, vjp::cross_entropy);
  row(OpId::nll_loss, "nll_loss", kSavesInput2 | kSavesAuxiliary, vjp::nll_loss);
  // Only the gradient of the input needs the weight.
  row(OpId::layer_norm, "layer_norm",
      SavesByInput(both | kSavesInput2 | kSavesAuxiliary, kSavesNothing, both | kSavesAuxiliary),
      vjp::layer_norm);
  row(OpId::batch_stats, "batch_norm", kSavesNothing, nullptr);
  row(OpId::batch_norm, "batch_norm", 0x1Fu, vjp::batch_norm);
  row(OpId::batch_norm_grad, "batch_norm_grad", kSavesNothing, nullptr);
  row(OpId::dropout, "dropout", kSavesInput1 | kSavesInput2 | 1u << 3, vjp::dropout);
  row(OpId::normal, "randn", kSavesNothing, nullptr);
  row(OpId::scatter_rows, "index_add", kSavesInput1, vjp::scatter_rows);
  // Indexing. Any number of index tensors follow the first inputs.
  constexpr std::uint32_t after_first = 0x3FFFFFFEu, after_second = 0x3FFFFFFCu;
  row(OpId::index, "index", after_first, vjp::index);
  row(OpId::index_sum, "index", after_first, vjp::index_sum);
  row(OpId::index_put, "index", after_second | kSavesAuxiliary, vjp::index_put);
  row(OpId::take_along, "take_along_axis", kSavesInput1, vjp::take_along);
  row(OpId::gather_along, "gather", kSavesInput1, vjp::take_along);
  row(OpId::add_along, "scatter_add", kSavesInput1, vjp::add_along);
  row(OpId::put_along, "scatter", kSavesInput2 | kSavesAuxiliary, vjp::put_along);
  row(OpId::select_rows, "index_select", kSavesInput1, vjp::select_rows);
  row(OpId::select_at, "index", kSavesInput1, vjp::select_at);
  row(OpId::put_slice, "index", after_second, vjp::put_slice);
  row(OpId::tril, "tril", kSavesInput1, vjp::tril);
  row(OpId::triu, "triu", kSavesInput1, vjp::triu);
  row(OpId::one_hot, "one_hot", kSavesNothing, nullptr);
  row(OpId::true_positions, "index", kSavesNothing, nullptr);
  row(OpId::nonzero, "nonzero", kSavesNothing, nullptr);
  row(OpId::rows_at_true, "masked_select", kSavesInput1, vjp::rows_at_true);
  row(OpId::rows_to_true, "index", kSavesInput1, vjp::rows_to_true);
  row(OpId::cumsum, "cumsum", kSavesNothing, vjp::cumsum);
  row(OpId::fold, "fold", kSavesNothing, vjp::fold);
  row(OpId::sort, "sort", kSavesAuxiliary, vjp::sort);
  row(OpId::sgd, "sgd", kSavesNothing, nullptr);
  row(OpId::adam, "adam", kSavesNothing, nullptr);
  row(OpId::rmsprop, "rmsprop", kSavesNothing, nullptr);
  row(OpId::adagrad, "adagrad", kSavesNothing, nullptr);
  row(OpId::lion, "lion", kSavesNothing, nullptr);
  row(OpId::muon, "muon", kSavesNothing, nullptr);
  row(OpId::any_nonfinite, "any_nonfinite", kSavesNothing, nullptr);
  row(OpId::total_norm, "total_norm", kSavesNothing, nullptr);
  // The Autocast rules: PyTorch's lists and the additions in volta/autocast.h. The rules of
  // elementwise operations are in their rows.
  for (const OpId id : {OpId::matmul, OpId::linear, OpId::conv, OpId::conv_input_grad,
                        OpId::attention, OpId::recurrent}) {
    table[static_cast<std::size_t>(id)].autocast = AutocastRule::product;
  }
  for (const OpId id : {OpId::sum, OpId::prod, OpId::mean, OpId::var, OpId::std, OpId::norm,
                        OpId::logsumexp, OpId::cumsum, OpId::softmax, OpId::log_softmax,
                        OpId::layer_norm, OpId::mse_loss, OpId::cross_entropy, OpId::nll_loss}) {
    table[static_cast<std::size_t>(id)].autocast = AutocastRule::full;
  }
  return table;
}

}  // namespace

constinit const std::array<Op, kOps> op_table = make_table();

}  // namespace volta::graph
