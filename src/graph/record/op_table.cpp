// The table of operations: what each saves for its gradient, its gradient, its expansion.
#include <array>

#include "graph/formula.h"
#include "graph/op.h"
#include "graph/rules.h"

namespace volta::graph {
namespace {

namespace formulas {
#define VOLTA_FORMULA(name, parameters, value, ...) \
  constexpr FormulaText name{parameters, value, {__VA_ARGS__}};
#define VOLTA_GRADIENT(name, parameters, ...) \
  constexpr FormulaText name{parameters, #name "(" parameters ")", {__VA_ARGS__}};
#include "graph/formulas.def"
#undef VOLTA_GRADIENT
#undef VOLTA_FORMULA
}  // namespace formulas

constexpr auto gradient_of(const FormulaText& text) {
  return text.gradients[0] == nullptr ? nullptr : vjp::formula;
}

constexpr std::array<Op, kOps> make_table() {
  std::array<Op, kOps> table{};
  const auto row = [&](OpId id, const char* name, std::uint32_t saves, void (*vjp)(Vjp&),
                       void (*lower)(plan::Lowering&) = nullptr) {
    table[static_cast<std::size_t>(id)] = {id, name, saves, vjp, lower};
  };
  constexpr auto both = kSavesInput0 | kSavesInput1;
  // Scalar operations, in the order of scalar_ops.def; the others have their gradient in
  // formulas.def.
  row(OpId::neg, "neg", kSavesNothing, vjp::neg);
  row(OpId::abs, "abs", kSavesInput0, vjp::abs);
  row(OpId::sign, "sign", kSavesNothing, vjp::zero);
  row(OpId::exp, "exp", kSavesOutput, vjp::exp);
  row(OpId::expm1, "expm1", kSavesOutput, vjp::expm1);
  row(OpId::log, "log", kSavesInput0, vjp::log);
  row(OpId::log1p, "log1p", kSavesInput0, vjp::log1p);
  row(OpId::sqrt, "sqrt", kSavesOutput, vjp::sqrt);
  row(OpId::rsqrt, "rsqrt", kSavesOutput, vjp::rsqrt);
  row(OpId::sin, "sin", kSavesInput0, vjp::sin);
  row(OpId::cos, "cos", kSavesInput0, vjp::cos);
  row(OpId::tanh, "tanh", kSavesOutput, vjp::tanh);
  row(OpId::erf, "erf", kSavesInput0, vjp::erf);
  row(OpId::floor, "floor", kSavesNothing, vjp::zero);
  row(OpId::logical_not, "logical_not", kSavesNothing, nullptr);
  row(OpId::add, "add", kSavesNothing, vjp::add);
  row(OpId::sub, "sub", kSavesNothing, vjp::sub);
  row(OpId::mul, "mul", both, vjp::mul);
  row(OpId::div, "div", both, vjp::div);
  row(OpId::pow, "pow", both | kSavesOutput, vjp::pow);
  row(OpId::maximum, "maximum", both, vjp::maximum);
  row(OpId::minimum, "minimum", both, vjp::minimum);
  row(OpId::lt, "lt", kSavesNothing, nullptr);
  row(OpId::le, "le", kSavesNothing, nullptr);
  row(OpId::eq, "eq", kSavesNothing, nullptr);
  row(OpId::ne, "ne", kSavesNothing, nullptr);
  row(OpId::logical_and, "logical_and", kSavesNothing, nullptr);
  row(OpId::logical_or, "logical_or", kSavesNothing, nullptr);
  row(OpId::logical_xor, "logical_xor", kSavesNothing, nullptr);
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
  row(OpId::matmul, "matmul", both, vjp::matmul);
  row(OpId::output, "output", kSavesNothing, nullptr);
  row(OpId::to_device, "to", kSavesNothing, vjp::to_device);
  row(OpId::function, "function", kSavesNothing, vjp::function);
  row(OpId::function_output, "function", kSavesNothing, vjp::function_output);
  // Gradients that are formulas; composed operations: formulas, then the others.
#define VOLTA_FORMULA(name, ...)                                                              \
  table[static_cast<std::size_t>(OpId::name)] = {                                             \
      OpId::name,      #name,          saves_of(formulas::name), gradient_of(formulas::name), \
      expand::formula, &formulas::name};
#define VOLTA_GRADIENT(name, ...)                                                                 \
  table[static_cast<std::size_t>(OpId::name)] = {OpId::name,   #name,   saves_of(formulas::name), \
                                                 vjp::formula, nullptr, &formulas::name};
#include "graph/formulas.def"
#undef VOLTA_GRADIENT
#undef VOLTA_FORMULA
  row(OpId::formula_grad, "gradient", kSavesNothing, nullptr, expand::formula_grad);
  row(OpId::mean, "mean", kSavesNothing, vjp::mean, expand::mean);
  row(OpId::sum_to, "sum_to", kSavesNothing, vjp::sum_to, expand::sum_to);
  row(OpId::max_along, "max", kSavesAuxiliary, vjp::extremum_along, expand::max_along);
  row(OpId::min_along, "min", kSavesAuxiliary, vjp::extremum_along, expand::min_along);
  row(OpId::var, "var", kSavesInput0, vjp::var, expand::var);
  row(OpId::std, "std", kSavesInput0 | kSavesOutput, vjp::std, expand::std);
  row(OpId::norm, "norm", kSavesInput0 | kSavesOutput, vjp::norm, expand::norm);
  row(OpId::logsumexp, "logsumexp", kSavesInput0 | kSavesOutput, vjp::logsumexp, expand::logsumexp);
  row(OpId::concat, "concat", kSavesNothing, vjp::concat, expand::concat);
  row(OpId::softmax, "softmax", kSavesOutput, vjp::softmax, expand::softmax);
  row(OpId::log_softmax, "log_softmax", kSavesOutput, vjp::log_softmax, expand::log_softmax);
  row(OpId::linear, "linear", both, vjp::linear, expand::linear);
  row(OpId::conv, "conv", both, vjp::conv, expand::conv);
  row(OpId::conv_input_grad, "conv_transpose", both, vjp::conv_input_grad, expand::conv_input_grad);
  row(OpId::conv_weight_grad, "conv_weight_grad", both, vjp::conv_weight_grad,
      expand::conv_weight_grad);
  row(OpId::max_pool, "max_pool", kSavesAuxiliary, vjp::max_pool, expand::max_pool);
  row(OpId::max_pool_grad, "max_pool_grad", kSavesInput1, vjp::max_pool_grad,
      expand::max_pool_grad);
  row(OpId::max_pool_at, "max_pool_at", kSavesInput1, vjp::max_pool_at, expand::max_pool_at);
  row(OpId::avg_pool, "avg_pool", kSavesNothing, vjp::avg_pool, expand::avg_pool);
  row(OpId::avg_pool_grad, "avg_pool_grad", kSavesNothing, vjp::avg_pool_grad,
      expand::avg_pool_grad);
  row(OpId::resample, "resample", kSavesInput1 | kSavesInput2, vjp::resample, expand::resample);
  row(OpId::resample_grad, "resample_grad", kSavesInput1 | kSavesInput2, vjp::resample_grad,
      expand::resample_grad);
  row(OpId::attention, "attention", 0xFFu | kSavesOutput | kSavesAuxiliary, vjp::attention,
      expand::attention);
  row(OpId::attention_grad, "attention_grad", kSavesNothing, nullptr, expand::attention_grad);
  row(OpId::recurrent, "recurrent", kSavesNothing, nullptr, expand::recurrent);
  row(OpId::recurrent_grad, "recurrent_grad", kSavesNothing, nullptr, expand::recurrent_grad);
  row(OpId::mse_loss, "mse_loss", both, vjp::mse_loss, expand::mse_loss);
  row(OpId::cross_entropy, "cross_entropy", 0xFu | kSavesAuxiliary, vjp::cross_entropy,
      expand::cross_entropy);
  row(OpId::nll_loss, "nll_loss", kSavesInput2 | kSavesAuxiliary, vjp::nll_loss, expand::nll_loss);
  row(OpId::layer_norm, "layer_norm", both | kSavesInput2 | kSavesAuxiliary, vjp::layer_norm,
      expand::layer_norm);
  row(OpId::batch_stats, "batch_norm", kSavesNothing, nullptr, expand::batch_stats);
  row(OpId::batch_norm, "batch_norm", 0x1Fu, vjp::batch_norm, expand::batch_norm);
  row(OpId::batch_norm_grad, "batch_norm_grad", kSavesNothing, nullptr, expand::batch_norm_grad);
  row(OpId::dropout, "dropout", kSavesInput1 | kSavesInput2 | 1u << 3, vjp::dropout,
      expand::dropout);
  row(OpId::normal, "randn", kSavesNothing, nullptr, expand::normal);
  row(OpId::scatter_rows, "index_add", kSavesInput1, vjp::scatter_rows, expand::scatter_rows);
  // Indexing. Any number of index tensors follow the first inputs.
  constexpr std::uint32_t after_first = 0x3FFFFFFEu, after_second = 0x3FFFFFFCu;
  row(OpId::index, "index", after_first, vjp::index, expand::index);
  row(OpId::index_sum, "index", after_first, vjp::index_sum, expand::index_sum);
  row(OpId::index_put, "index", after_second | kSavesAuxiliary, vjp::index_put, expand::index_put);
  row(OpId::take_along, "take_along_axis", kSavesInput1, vjp::take_along, expand::take_along);
  row(OpId::gather_along, "gather", kSavesInput1, vjp::take_along, expand::take_along);
  row(OpId::add_along, "scatter_add", kSavesInput1, vjp::add_along, expand::add_along);
  row(OpId::put_along, "scatter", kSavesInput2 | kSavesAuxiliary, vjp::put_along,
      expand::put_along);
  row(OpId::select_rows, "index_select", kSavesInput1, vjp::select_rows, expand::select_rows);
  row(OpId::select_at, "index", kSavesInput1, vjp::select_at, expand::select_at);
  row(OpId::put_slice, "index", after_second, vjp::put_slice, expand::put_slice);
  row(OpId::tril, "tril", kSavesInput1, vjp::tril, expand::tril);
  row(OpId::triu, "triu", kSavesInput1, vjp::triu, expand::triu);
  row(OpId::one_hot, "one_hot", kSavesNothing, nullptr, expand::one_hot);
  row(OpId::true_positions, "index", kSavesNothing, nullptr, expand::true_positions);
  row(OpId::nonzero, "nonzero", kSavesNothing, nullptr, expand::nonzero);
  row(OpId::rows_at_true, "masked_select", kSavesInput1, vjp::rows_at_true, expand::rows_at_true);
  row(OpId::rows_to_true, "index", kSavesInput1, vjp::rows_to_true, expand::rows_to_true);
  row(OpId::cumsum, "cumsum", kSavesNothing, vjp::cumsum, expand::cumsum);
  row(OpId::fold, "fold", kSavesNothing, vjp::fold, expand::fold);
  row(OpId::sort, "sort", kSavesAuxiliary, vjp::sort, expand::sort);
  row(OpId::sgd, "sgd", kSavesNothing, nullptr, expand::sgd);
  row(OpId::adam, "adam", kSavesNothing, nullptr, expand::adam);
  row(OpId::rmsprop, "rmsprop", kSavesNothing, nullptr, expand::rmsprop);
  row(OpId::adagrad, "adagrad", kSavesNothing, nullptr, expand::adagrad);
  row(OpId::lion, "lion", kSavesNothing, nullptr, expand::lion);
  row(OpId::muon, "muon", kSavesNothing, nullptr, expand::muon);
  row(OpId::any_nonfinite, "any_nonfinite", kSavesNothing, nullptr, expand::any_nonfinite);
  row(OpId::total_norm, "total_norm", kSavesNothing, nullptr, expand::total_norm);
  // What Autocast makes of them: PyTorch's lists, and what volta/autocast.h adds to them.
  for (const OpId id : {OpId::matmul, OpId::linear, OpId::conv, OpId::conv_input_grad,
                        OpId::attention, OpId::recurrent}) {
    table[static_cast<std::size_t>(id)].autocast = AutocastRule::product;
  }
  for (const OpId id :
       {OpId::exp,        OpId::exp2,      OpId::expm1,         OpId::log,        OpId::log2,
        OpId::log1p,      OpId::rsqrt,     OpId::pow,           OpId::reciprocal, OpId::tan,
        OpId::asin,       OpId::acos,      OpId::sinh,          OpId::cosh,       OpId::softplus,
        OpId::sum,        OpId::prod,      OpId::mean,          OpId::var,        OpId::std,
        OpId::norm,       OpId::logsumexp, OpId::cumsum,        OpId::softmax,    OpId::log_softmax,
        OpId::layer_norm, OpId::mse_loss,  OpId::cross_entropy, OpId::square}) {
    table[static_cast<std::size_t>(id)].autocast = AutocastRule::full;
  }
  for (const OpId id : {OpId::l1_loss, OpId::smooth_l1_loss, OpId::huber_loss,
                        OpId::binary_cross_entropy, OpId::binary_cross_entropy_with_logits,
                        OpId::kl_div, OpId::kl_div_log, OpId::gaussian_kl, OpId::nll_loss}) {
    table[static_cast<std::size_t>(id)].autocast = AutocastRule::full;
  }
  return table;
}

}  // namespace

constinit const std::array<Op, kOps> op_table = make_table();

}  // namespace volta::graph
