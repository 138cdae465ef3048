// Runs the statements of a random program one after the other on variables of the reference.
#include "random_graph/random_graph_evaluator.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace volta::random_graph {
namespace {

// A well-mixed word for each element of each tensor and round.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

DType dtype_beside(DType tensor, const Number& number) {
  if (is_floating(tensor)) return tensor;
  if (!number.integer) return DType::f32;
  return tensor == DType::boolean ? DType::i64 : tensor;
}

int axis_of(const Statement& s, const Array& x) {
  if (s.dims.empty() || s.dims[0] >= x.rank()) throw Invalid("no such axis");
  return static_cast<int>(s.dims[0]);
}

void check_axes(const Statement& s, const Array& x) {
  for (const std::int64_t axis : s.dims) {
    if (axis >= x.rank()) throw Invalid("no such axis");
  }
}

Op plain(Op in_place) {
  switch (in_place) {
    case Op::add_to:
      return Op::add;
    case Op::sub_from:
      return Op::sub;
    case Op::mul_by:
      return Op::mul;
    default:
      return Op::div;
  }
}

}  // namespace

std::uint64_t seed_of_round(const Program& program, int round) {
  return mixed(program.seed) >> 16 ^ static_cast<std::uint64_t>(round);
}

std::vector<double> data_values(const Program& program, const Statement& s, int round) {
  std::vector<double> values(static_cast<std::size_t>(numel_of(s.dims)));
  std::uint64_t state = mixed(program.seed * 1024 + static_cast<std::uint64_t>(s.out)) ^
                        mixed(static_cast<std::uint64_t>(s.persistent ? 0 : round));
  for (double& value : values) {
    state = mixed(state);
    const double u = static_cast<double>(state >> 11) * 0x1p-53;
    const double whole = is_integral(s.dtype) ? 1 : 0;
    switch (s.fill) {
      case Fill::numbers:
        value = whole != 0 ? std::floor(u * 19) - 9 : u * 4 - 2;
        break;
      case Fill::positive:
        value = whole != 0 ? std::floor(u * 9) + 1 : 0.5 + 1.5 * u;
        break;
      case Fill::integers:
        value = std::floor(u * 9) - 4;
        break;
      case Fill::indices:
        value = std::floor(u * s.number.value);
        break;
    }
    if (s.dtype == DType::boolean) value = (state & 1) != 0 ? 1 : 0;
    if (s.dtype == DType::u8) value = std::fabs(value);
    value = rounded_to(value, s.dtype);
  }
  return values;
}

const Ref& Evaluator::tensor(int id) const {
  static const Ref none;
  return id >= 0 && id < tensors() ? tensors_[static_cast<std::size_t>(id)] : none;
}

void Evaluator::set_tensor(int id, Ref ref) {
  if (id >= tensors()) tensors_.resize(static_cast<std::size_t>(id) + 1);
  tensors_[static_cast<std::size_t>(id)] = std::move(ref);
}

const Ref& Evaluator::input(const Statement& s, std::size_t i) const {
  if (i >= s.in.size() || !tensor(s.in[i])) throw Invalid("a tensor is not held");
  return tensor(s.in[i]);
}

void Evaluator::begin_round(int round) {
  round_ = round;
  seed_ = seed_of_round(*program_, round);
  offset_ = 0;
}

void Evaluator::end_round() {
  if (!program_->drops_at_end) return;
  for (const Statement& s : program_->statements) {
    if (s.persistent) continue;
    if (s.out >= 0) set_tensor(s.out, nullptr);
    if (s.second >= 0) set_tensor(s.second, nullptr);
  }
}

std::uint64_t Evaluator::take_random(std::int64_t words) {
  const std::uint64_t taken = offset_;
  offset_ += static_cast<std::uint64_t>((words + 3) / 4);
  return taken;
}

Ref Evaluator::created(const Statement& s) {
  const std::int64_t n = numel_of(s.dims);
  Array value(s.dims, s.dtype);
  const DType inner = inner_of(s.dtype);
  switch (s.op) {
    case Op::data: {
      const std::vector<double> values = data_values(*program_, s, round_);
      for (std::size_t i = 0; i < values.size(); ++i) value.at[i].v = values[i];
      break;
    }
    case Op::full:
      value = filled(s.dims, s.number.in_round(round_), s.dtype);
      break;
    case Op::arange:
      for (std::size_t i = 0; i < value.at.size(); ++i)
        value.at[i].v = rounded_to(static_cast<double>(i), s.dtype);
      break;
    case Op::rand: {
      Array u = philox_uniform(seed_, take_random(n), s.dims, inner);
      if (s.dtype == DType::f16 || s.dtype == DType::bf16) {  // only as many bits as a half has
        const Array bits = filled({}, s.dtype == DType::f16 ? 0x1p11 : 0x1p8, inner);
        u = binary(Op::div, unary(Op::floor, binary(Op::mul, u, bits)), bits);
      }
      value = cast(u, s.dtype);
      break;
    }
    case Op::uniform: {
      const double low = s.number.in_round(round_);
      const Array u = philox_uniform(seed_, take_random(n), s.dims, inner);
      const Array spread = binary(Op::mul, u, filled({}, 3, inner));
      value = cast(binary(Op::add, spread, filled({}, low, inner)), s.dtype);
      break;
    }
    case Op::randint: {
      if (s.number.value > 4096) {  // a long range: the remainder of 63 bits from two words
        const std::uint64_t offset = take_random(2 * n),
                            range = static_cast<std::uint64_t>(s.number.value);
        for (std::size_t i = 0; i < value.at.size(); ++i) {
          const std::uint64_t upper = philox_word(seed_, offset, 2 * i) & 0x7fffffffu;
          value.at[i].v =
              static_cast<double>((upper << 32 | philox_word(seed_, offset, 2 * i + 1)) % range);
        }
        break;
      }
      const Array u = philox_uniform(seed_, take_random(n), s.dims, DType::f32);
      const Array scaled = binary(Op::mul, u, filled({}, s.number.value, DType::f32));
      value = cast(cast(unary(Op::floor, scaled), DType::i64), s.dtype);
      break;
    }
    default: {  // randn: two words per number
      const std::uint64_t offset = take_random(2 * n);
      const Array u = philox_uniform(seed_, offset, s.dims, inner, 2, 0);
      const Array v = philox_uniform(seed_, offset, s.dims, inner, 2, 1);
      const auto number = [&](double x) { return filled({}, x, inner); };
      const Array log = unary(Op::log, binary(Op::sub, number(1), u));
      const Array radius = unary(Op::sqrt, binary(Op::mul, number(-2), log));
      const Array angle = binary(Op::mul, number(2 * std::numbers::pi), v);
      value = cast(binary(Op::mul, radius, unary(Op::cos, angle)), s.dtype);
      break;
    }
  }
  Ref result = constant(std::move(value));
  result->requires_grad = s.flag;
  return result;
}

Ref Evaluator::operand(const Statement& s, std::size_t i, DType beside, bool divides) const {
  if (s.in[i] >= 0) return input(s, i);
  DType dtype = dtype_beside(beside, s.number);
  if (divides && !is_floating(dtype)) dtype = DType::f32;
  const double number = s.number.in_round(round_);
  if (dtype == DType::u8 && (number < 0 || number > 255)) throw Invalid("no number of u8");
  return constant(filled({}, number, dtype));
}

Ref Evaluator::binary_of(const Statement& s) {
  const std::size_t number = s.in[0] < 0 ? 0 : 1;
  const DType beside = input(s, 1 - number)->value.dtype;
  const bool divides = s.op == Op::div;
  return binary(s.op, operand(s, 0, beside, divides), operand(s, 1, beside, divides));
}

Ref Evaluator::where_of(const Statement& s) {
  const std::size_t number = s.in[1] < 0 ? 1 : 2;
  const DType beside = input(s, 3 - number)->value.dtype;
  if (input(s, 0)->value.dtype != DType::boolean) throw Invalid("where without a bool");
  return where(input(s, 0), operand(s, 1, beside, false), operand(s, 2, beside, false));
}

Ref Evaluator::network(const Statement& s) {
  const auto optional = [&](std::size_t i) { return i < s.in.size() ? input(s, i) : Ref(); };
  const Ref& x = input(s, 0);
  switch (s.op) {
    case Op::matmul:
      return matmul(x, input(s, 1));
    case Op::concat: {
      std::vector<Ref> parts;
      for (std::size_t i = 0; i < s.in.size(); ++i) parts.push_back(input(s, i));
      return concat(parts, static_cast<int>(s.dims.at(0)));
    }
    case Op::linear:
      return linear(x, input(s, 1), optional(2));
    case Op::embedding:
      return embedding(x, input(s, 1));
    case Op::index_add:
      return index_add(x, input(s, 1), input(s, 2));
    case Op::take_along_axis:
      return take_along_axis(x, input(s, 1), axis_of(s, x->value));
    case Op::layer_norm:
      return layer_norm(x, static_cast<int>(s.dims[0]), optional(1), optional(2), s.number.value);
    case Op::dropout: {
      const std::int64_t n = x->value.numel();
      return dropout(x, philox_uniform(seed_, take_random(n), x->value.dims, DType::f32),
                     s.number.in_round(round_));
    }
    case Op::mse_loss:
      return mse_loss(x, input(s, 1), s.choice);
    default:
      return cross_entropy(x, input(s, 1), s.choice);
  }
}

Ordered Evaluator::ordered(const Statement& s) {
  const Ref& x = input(s, 0);
  const int axis = axis_of(s, x->value);
  const std::int64_t extent = x->value.dims[static_cast<std::size_t>(axis)];
  const std::int64_t count = s.op == Op::topk ? s.dims[1] : extent;
  if (count > extent) throw Invalid("topk of more than there are");
  return sort(x, axis, count, s.flag);
}

Ref Evaluator::made(const Statement& s) {
  if (s.op <= Op::randint) return created(s);
  if (is_binary(s.op)) return binary_of(s);
  if (s.op == Op::where) return where_of(s);
  if (s.op >= Op::matmul && s.op <= Op::cross_entropy) return network(s);
  const Ref& x = input(s, 0);
  const Array& value = x->value;
  if (is_unary(s.op)) {
    const bool any = s.op == Op::neg || s.op == Op::abs || s.op == Op::sign || s.op == Op::square ||
                     s.op == Op::relu;
    if (any && value.dtype == DType::boolean) throw Invalid("arithmetic on a bool");
    if (s.op == Op::floor && !is_floating(value.dtype)) return clone(x);
    if ((s.op == Op::gelu || s.op == Op::silu) && !is_floating(value.dtype))
      throw Invalid("an activation of integers");
    const bool as_is = any || s.op == Op::logical_not || is_floating(value.dtype);
    return unary(s.op, as_is ? x : cast(x, DType::f32));
  }
  switch (s.op) {
    case Op::cast:
      return cast(x, s.dtype);
    case Op::clone:
      return clone(x);
    case Op::detach:
      return constant(value);
    case Op::alias:
      return x;
    case Op::reshape:
      return reshape(x, s.dims);
    case Op::permute:
      return permute(x, s.dims);
    case Op::expand:
      return expand(x, s.dims);
    case Op::squeeze: {
      Dims dims = value.dims;
      const int axis = axis_of(s, value);
      if (dims[static_cast<std::size_t>(axis)] == 1) dims.erase(dims.begin() + axis);
      return reshape(x, dims);
    }
    case Op::unsqueeze: {
      Dims dims = value.dims;
      if (s.dims.at(0) > value.rank()) throw Invalid("no such axis");
      dims.insert(dims.begin() + s.dims[0], 1);
      return reshape(x, dims);
    }
    case Op::narrow:
      return narrow(x, axis_of(s, value), s.dims[1], s.dims[2]);
    case Op::pad: {
      const std::ptrdiff_t half = static_cast<std::ptrdiff_t>(s.dims.size() / 2);
      return pad(x, {s.dims.begin(), s.dims.begin() + half}, {s.dims.begin() + half, s.dims.end()},
                 s.number.in_round(round_));
    }
    case Op::stride:
      return stride(x, s.dims);
    case Op::sum:
    case Op::mean:
    case Op::prod:
    case Op::max:
    case Op::min: {
      check_axes(s, value);
      const Dims axes = s.dims.empty() ? all_axes(value) : s.dims;
      if (s.op == Op::sum) return sum(x, axes, s.flag);
      if (s.op == Op::mean) return mean(x, axes, s.flag);
      if (s.op == Op::prod) return prod(x, axes, s.flag);
      return extremum(x, axes, s.flag, s.op == Op::max, s.dims.size() == 1);
    }
    case Op::argmax:
    case Op::argmin: {
      const Array rows = s.dims.empty() ? reshape(value, {value.numel()}) : value;
      const int axis = s.dims.empty() ? 0 : axis_of(s, value);
      return constant(s.op == Op::argmax ? argmax(rows, axis, s.flag) : argmin(rows, axis, s.flag));
    }
    case Op::softmax:
      return softmax(x, axis_of(s, value));
    case Op::log_softmax:
      return log_softmax(x, axis_of(s, value));
    case Op::cumsum:
      return cumsum(x, axis_of(s, value));
    case Op::sort:
    case Op::topk:
      return ordered(s).values;
    case Op::argsort:
      return ordered(s).positions;
    case Op::grad:
      if (!x->grad) throw Invalid("no gradient yet");
      return x->grad;
    default:
      throw Invalid("not an operation");
  }
}

void Evaluator::assign_in_place(const Statement& s) {
  const Ref target = input(s, 0);
  if (target->requires_grad && GradMode::enabled() && s.op != Op::assign)
    throw Invalid("a leaf that requires a gradient changes only under NoGrad");
  const DType dtype = target->value.dtype;
  Ref value;
  if (s.op == Op::fill) {
    value = constant(filled(target->value.dims, s.number.in_round(round_), dtype));
  } else if (s.op == Op::copy) {
    value = cast(input(s, 1), dtype);
    if (value->requires_grad && GradMode::enabled()) value = clone(value);
  } else if (s.op == Op::assign) {
    value = input(s, 1);
    if (value->value.dtype != dtype) throw Invalid("assign changes the dtype");
  } else {
    const Ref other = operand(s, 1, dtype, s.op == Op::div_by);
    const Ref result = binary(plain(s.op), target, other);
    if (is_floating(result->value.dtype) && !is_floating(dtype))
      throw Invalid("a float does not fit into integers in place");
    if (result->value.dtype != dtype && dtype == DType::boolean)
      throw Invalid("a number does not fit into bools in place");
    value = cast(result, dtype);
  }
  if (value->value.dims != target->value.dims) throw Invalid("shapes differ in place");
  // The overwritten value stays in the history, with a gradient of 0.
  if ((s.op == Op::fill || s.op == Op::copy) && target->tape && GradMode::enabled())
    value = where(constant(filled({}, 1, DType::boolean)), value, target);
  const bool is_gradient = std::any_of(tensors_.begin(), tensors_.end(),
                                       [&](const Ref& t) { return t && t->grad == target; });
  if (is_gradient && value->tape) throw Invalid("a gradient with a history is added to");
  target->value = value->value;
  // Under NoGrad a value changes and its history stays.
  if (s.op == Op::assign) {
    target->tape = TapeRef();
  } else if (GradMode::enabled()) {
    target->tape = value->tape;
  }
}

// The formulas of SGD (choice 0: plain, 1: momentum) and Adam; `flag` stands for decay.
void Evaluator::update_parameters(const Statement& s, std::size_t position) {
  const GradMode off(false);
  std::vector<Array>& state = moments_[position];
  state.resize(3 * s.in.size());
  const double lr = s.number.in_round(round_);
  for (std::size_t i = 0; i < s.in.size(); ++i) input(s, i);
  for (std::size_t i = 0; i < s.in.size(); ++i) {
    const Ref& parameter = input(s, i);
    if (!parameter->grad) continue;
    const Array p = parameter->value;
    Array g = parameter->grad->value;
    const auto number = [&](double x) { return filled({}, x, p.dtype); };
    const auto scaled = [&](const Array& x, double by) { return binary(Op::mul, x, number(by)); };
    if (s.flag) g = binary(Op::add, g, scaled(p, kWeightDecay));
    Array& first = state[3 * i];
    Array& second = state[3 * i + 1];
    Array& steps = state[3 * i + 2];
    if (s.op == Op::sgd_step) {
      Array step = g;
      if (s.choice != 0) {
        first = first.at.empty() ? g : binary(Op::add, scaled(first, kMomentum), g);
        step = first;
      }
      parameter->value = binary(Op::sub, p, scaled(step, lr));
      continue;
    }
    if (steps.at.empty()) {
      first = second = filled(p.dims, 0, p.dtype);
      steps = filled({}, 0, DType::f32);
    }
    first = binary(Op::add, first, scaled(binary(Op::sub, g, first), 1 - kBeta1));
    second = binary(Op::add, scaled(second, kBeta2), scaled(binary(Op::mul, g, g), 1 - kBeta2));
    steps = binary(Op::add, steps, filled({}, 1, DType::f32));
    const auto correction = [&](double beta) {
      const Array power = binary(Op::mul, cast(steps, p.dtype), number(std::log(beta)));
      return unary(Op::neg, unary(Op::expm1, power));
    };
    const Array rate = binary(Op::div, number(lr), correction(kBeta1));
    const Array root =
        binary(Op::div, unary(Op::sqrt, second), unary(Op::sqrt, correction(kBeta2)));
    const Array step = binary(Op::div, first, binary(Op::add, root, number(kAdamEps)));
    parameter->value = binary(Op::sub, p, binary(Op::mul, step, rate));
  }
}

void Evaluator::step(const Statement& s, std::size_t position) {
  if (s.persistent && round_ > 0) return;
  const GradMode mode(!s.no_grad);
  if (is_in_place(s.op)) return assign_in_place(s);
  switch (s.op) {
    case Op::backward: {
      const Ref root = input(s, 0);
      if (s.in.size() > 1 ? input(s, 1)->value.dims != root->value.dims
                          : root->value.numel() != 1) {
        throw Invalid("backward does not fit");
      }
      const Array gradient = s.in.size() > 1 ? cast(input(s, 1)->value, root->value.dtype)
                                             : filled(root->value.dims, 1, root->value.dtype);
      return run_backward(root, gradient, s.flag);
    }
    case Op::zero_grad:
      input(s, 0)->grad = nullptr;
      return;
    case Op::sgd_step:
    case Op::adam_step:
      return update_parameters(s, position);
    case Op::drop:
      input(s, 0);
      return set_tensor(s.in[0], nullptr);
    case Op::look:
    case Op::eval:
      input(s, 0);
      return;
    case Op::item:
      if (input(s, 0)->value.numel() != 1) throw Invalid("item of several");
      return;
    case Op::submit:
      return;
    default:
      break;
  }
  const std::uint64_t before = offset_;
  try {
    Ref result = made(s);
    if (wrong_ == s.op) {
      for (Num& n : result->value.at) n.v += 0.05 + 0.05 * std::fabs(n.v);
    }
    if (s.second >= 0) set_tensor(s.second, ordered(s).positions);
    set_tensor(s.out, std::move(result));
  } catch (const Invalid&) {
    offset_ = before;
    throw;
  }
}

}  // namespace volta::random_graph
