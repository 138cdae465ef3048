// Writes random programs as text.
#include "random_graph/random_graph_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace volta::random_graph {
namespace {

constexpr std::array kNames = {"data",
                               "full",
                               "arange",
                               "rand",
                               "uniform",
                               "randn",
                               "randint",
                               "neg",
                               "abs",
                               "sign",
                               "exp",
                               "expm1",
                               "log",
                               "log1p",
                               "sqrt",
                               "rsqrt",
                               "square",
                               "reciprocal",
                               "sin",
                               "cos",
                               "tanh",
                               "sigmoid",
                               "erf",
                               "floor",
                               "relu",
                               "gelu",
                               "silu",
                               "logical_not",
                               "add",
                               "sub",
                               "mul",
                               "div",
                               "pow",
                               "maximum",
                               "minimum",
                               "lt",
                               "le",
                               "gt",
                               "ge",
                               "eq",
                               "ne",
                               "logical_and",
                               "logical_or",
                               "where",
                               "to",
                               "clone",
                               "detach",
                               "alias",
                               "reshape",
                               "permute",
                               "expand",
                               "squeeze",
                               "unsqueeze",
                               "narrow",
                               "pad",
                               "stride",
                               "sum",
                               "mean",
                               "max",
                               "min",
                               "prod",
                               "argmax",
                               "argmin",
                               "softmax",
                               "log_softmax",
                               "cumsum",
                               "sort",
                               "argsort",
                               "topk",
                               "matmul",
                               "concat",
                               "linear",
                               "embedding",
                               "index_add",
                               "take_along_axis",
                               "layer_norm",
                               "dropout",
                               "mse_loss",
                               "cross_entropy",
                               "+=",
                               "-=",
                               "*=",
                               "/=",
                               "fill_",
                               "copy_",
                               "assign",
                               "backward",
                               "grad",
                               "zero_grad",
                               "sgd_step",
                               "adam_step",
                               "drop",
                               "to_vector",
                               "item",
                               "eval",
                               "submit"};
static_assert(kNames.size() == static_cast<std::size_t>(Op::submit) + 1);

std::string braces(const Dims& dims) { return fmt::format("{{{}}}", fmt::join(dims, ", ")); }

std::string shown(const Number& n) {
  const std::string text = n.integer ? fmt::format("{}", static_cast<std::int64_t>(n.value))
                                     : fmt::format("{:.17g}", n.value);
  const std::string floating =
      n.integer || text.find_first_of(".e") != std::string::npos ? text : text + ".0";
  if (!n.varies) return floating;
  return fmt::format("{} + {}round", floating, n.integer ? "" : "0.0625 * ");
}

std::string operand(const Statement& s, std::size_t i) {
  return s.in[i] < 0 ? shown(s.number) : fmt::format("t{}", s.in[i]);
}

std::string operands(const Statement& s, std::size_t from = 0) {
  std::string text;
  for (std::size_t i = from; i < s.in.size(); ++i) {
    if (i > from) text += ", ";
    text += operand(s, i);
  }
  return text;
}

std::string options(const Statement& s) {
  return fmt::format("{{.dtype = {}{}}}", volta::name_of(s.dtype),
                     s.flag ? ", .requires_grad = true" : "");
}

std::string fill_name(const Statement& s) {
  switch (s.fill) {
    case Fill::numbers:
      return "numbers";
    case Fill::positive:
      return "positive";
    case Fill::integers:
      return "integers";
    default:
      return fmt::format("indices below {}", static_cast<std::int64_t>(s.number.value));
  }
}

// The right-hand side of the assignment, or the whole statement.
std::string expression(const Statement& s) {
  const char* name = name_of(s.op);
  const char* keep = s.flag ? ", true" : "";
  switch (s.op) {
    case Op::data:
      return fmt::format("data({}, {})  /* {} */", braces(s.dims), options(s), fill_name(s));
    case Op::full:
      return fmt::format("full({}, {}, {})", braces(s.dims), shown(s.number), options(s));
    case Op::arange:
      return fmt::format("arange({}, {})", s.dims[0], options(s));
    case Op::uniform:
      return fmt::format("uniform({}, {}, low + 3, {})", braces(s.dims), shown(s.number),
                         options(s));
    case Op::randint:
      return fmt::format("randint(0, {}, {}, {})", s.number.value, braces(s.dims), options(s));
    case Op::rand:
    case Op::randn:
      return fmt::format("{}({}, {})", name, braces(s.dims), options(s));
    case Op::cast:
      return fmt::format("t{}.to(DType::{})", s.in[0], volta::name_of(s.dtype));
    case Op::alias:
      return fmt::format("t{}", s.in[0]);
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::stride:
      return fmt::format("t{}.{}({})", s.in[0], name, braces(s.dims));
    case Op::squeeze:
    case Op::unsqueeze:
    case Op::narrow:
    case Op::softmax:
    case Op::log_softmax:
    case Op::cumsum:
      return fmt::format("t{}.{}({})", s.in[0], name, fmt::join(s.dims, ", "));
    case Op::pad: {
      const std::size_t half = s.dims.size() / 2;
      const auto middle = s.dims.begin() + static_cast<std::ptrdiff_t>(half);
      return fmt::format("pad(t{}, {}, {}, {})", s.in[0], braces({s.dims.begin(), middle}),
                         braces({middle, s.dims.end()}), shown(s.number));
    }
    case Op::sum:
      if (s.dims.empty() && !s.flag) return fmt::format("t{}.sum()", s.in[0]);
      return fmt::format("t{}.sum({}{})", s.in[0], braces(s.dims), keep);
    case Op::mean:
    case Op::max:
    case Op::min:
    case Op::prod:
      if (s.dims.empty()) return fmt::format("t{}.{}()", s.in[0], name);
      return fmt::format("t{}.{}({}{})", s.in[0], name, braces(s.dims), keep);
    case Op::argmax:
    case Op::argmin:
      if (s.dims.empty()) return fmt::format("t{}.{}()", s.in[0], name);
      return fmt::format("t{}.{}({}{})", s.in[0], name, s.dims[0], keep);
    case Op::concat:
      return fmt::format("concat({{{}}}, {})", operands(s), s.dims[0]);
    case Op::sort:
    case Op::argsort:
      return fmt::format("{}(t{}, {}{}){}", name, s.in[0], s.dims[0],
                         s.flag ? ", {.descending = true}" : "",
                         s.op == Op::sort && s.second < 0 ? ".values" : "");
    case Op::topk:
      return fmt::format("topk(t{}, {}, {}{}){}", s.in[0], s.dims[1], s.dims[0],
                         s.flag ? "" : ", {.largest = false}", s.second < 0 ? ".values" : "");
    case Op::index_add:
      return fmt::format("index_add(t{}, 0, t{}, t{})", s.in[0], s.in[1], s.in[2]);
    case Op::take_along_axis:
      return fmt::format("take_along_axis({}, {})", operands(s), s.dims[0]);
    case Op::layer_norm:
      return fmt::format("layer_norm({}, /* last {} axes */, eps {})", operands(s), s.dims[0],
                         s.number.value);
    case Op::dropout:
      return fmt::format("dropout(t{}, {})", s.in[0], shown(s.number));
    case Op::mse_loss:
    case Op::cross_entropy: {
      constexpr const char* reductions[] = {"none", "mean", "sum"};
      return fmt::format("{}({}, {{.reduction = Reduction::{}}})", name, operands(s),
                         reductions[s.choice]);
    }
    case Op::add_to:
    case Op::sub_from:
    case Op::mul_by:
    case Op::div_by:
      return fmt::format("t{} {} {}", s.in[0], name, operand(s, 1));
    case Op::fill:
      return fmt::format("t{}.fill_({})", s.in[0], shown(s.number));
    case Op::copy:
      return fmt::format("t{}.copy_(t{})", s.in[0], s.in[1]);
    case Op::backward:
      return fmt::format("t{}.backward({}{})", s.in[0], operands(s, 1),
                         s.flag ? "{.retain_graph = true}" : "");
    case Op::sgd_step:
    case Op::adam_step:
      return fmt::format("{}({{{}}}, lr {}{}{})", name, operands(s), shown(s.number),
                         s.choice != 0 ? ", momentum" : "", s.flag ? ", decay" : "");
    case Op::drop:
      return fmt::format("t{} = Tensor()", s.in[0]);
    case Op::submit:
      return "submit(device)";
    case Op::clone:
    case Op::detach:
    case Op::grad:
    case Op::zero_grad:
    case Op::look:
    case Op::item:
    case Op::eval:
      return fmt::format("t{}.{}()", s.in[0], name);
    default:
      return fmt::format("{}({})", name, operands(s));
  }
}

}  // namespace

const char* name_of(Op op) { return kNames[static_cast<std::size_t>(op)]; }

std::string to_string(const Statement& s) {
  std::string text = expression(s) + ";";
  if (s.second >= 0) {
    text = fmt::format("auto [t{}, t{}] = {}", s.out, s.second, text);
  } else if (s.out >= 0) {
    text = fmt::format("t{} = {}", s.out, text);
  }
  return s.no_grad ? fmt::format("{{ NoGrad off; {} }}", text) : text;
}

std::string to_string(const Program& program) {
  std::string text = fmt::format(
      "// handles {}\nfor (int round = 0; round < {}; ++round) {{\n",
      program.drops_at_end ? "go at the end of a round" : "stay until the next round replaces them",
      program.rounds);
  for (const Statement& s : program.statements) {
    text += fmt::format("  {}{}\n", s.persistent ? "if (round == 0) " : "", to_string(s));
  }
  constexpr const char* ends[] = {"look at everything held",
                                  "submit(device), looked at after the last",
                                  "nothing, looked at after the last"};
  return text + fmt::format("  // {}\n}}\n", ends[static_cast<int>(program.end)]);
}

}  // namespace volta::random_graph
