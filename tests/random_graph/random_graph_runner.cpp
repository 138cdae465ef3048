// Runs random programs through the public API in step with the reference.
#include "random_graph/random_graph_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <map>

#include "random_graph/random_graph_evaluator.h"
#include "volta/detail/optimizer_ops.h"
#include "volta/volta.h"

namespace volta::random_graph {
namespace {

Shape shape_of(const Dims& dims) { return Shape(std::span<const std::int64_t>(dims)); }

// The program's tensors on the device.
class OnDevice {
 public:
  OnDevice(const Program& program, Device device) : program_(program), device_(device) {}

  void begin_round(int round) {
    round_ = round;
    manual_seed(seed_of_round(program_, round));
  }
  void end_round() {
    if (!program_.drops_at_end) return;
    for (const Statement& s : program_.statements) {
      if (s.persistent) continue;
      if (s.out >= 0) at(s.out) = Tensor();
      if (s.second >= 0) at(s.second) = Tensor();
    }
  }
  Tensor& at(int id) {
    if (id >= static_cast<int>(tensors_.size())) tensors_.resize(static_cast<std::size_t>(id) + 1);
    return tensors_[static_cast<std::size_t>(id)];
  }
  void step(const Statement& s, std::size_t position);

 private:
  Tensor& in(const Statement& s, std::size_t i) { return at(s.in[i]); }
  Scalar scalar_of(const Statement& s) const {
    const double value = s.number.in_round(round_);
    return s.number.integer ? Scalar(static_cast<std::int64_t>(value)) : Scalar(value);
  }
  Operand operand(const Statement& s, std::size_t i) {
    return s.in[i] < 0 ? Operand(scalar_of(s)) : Operand(in(s, i));
  }
  Tensor made(const Statement& s);
  Tensor created(const Statement& s);
  Tensor unary(const Statement& s);
  Tensor binary(const Statement& s);
  Tensor network(const Statement& s);
  Tensor view_or_reduction(const Statement& s);
  void order(const Statement& s);
  void assign_in_place(const Statement& s);
  void update_parameters(const Statement& s, std::size_t position);

  const Program& program_;
  Device device_;
  int round_ = 0;
  std::vector<Tensor> tensors_;
  struct Moments {
    std::vector<Tensor> first, second, steps;
  };
  std::map<std::size_t, Moments> moments_;
};

Tensor OnDevice::created(const Statement& s) {
  const Shape shape = shape_of(s.dims);
  const TensorOptions options{.dtype = s.dtype, .device = device_, .requires_grad = s.flag};
  switch (s.op) {
    case Op::data:
      return from_vector(data_values(program_, s, round_), shape, options);
    case Op::full:
      return full(shape, scalar_of(s), options);
    case Op::arange:
      return arange(s.dims[0], options);
    case Op::rand:
      return rand(shape, options);
    case Op::uniform: {
      const double low = s.number.in_round(round_);
      return uniform(shape, low, low + 3, options);
    }
    case Op::randint:
      return randint(0, static_cast<std::int64_t>(s.number.value), shape, options);
    default:
      return randn(shape, options);
  }
}

Tensor OnDevice::unary(const Statement& s) {
  using Function = Tensor (*)(const Tensor&, SourceLocation);
  static constexpr Function functions[] = {
      volta::neg,   volta::abs,  volta::sign,       volta::exp,    volta::expm1,      volta::log,
      volta::log1p, volta::sqrt, volta::rsqrt,      volta::square, volta::reciprocal, volta::sin,
      volta::cos,   volta::tanh, volta::sigmoid,    volta::erf,    volta::floor,      volta::relu,
      volta::gelu,  volta::silu, volta::logical_not};
  return functions[static_cast<int>(s.op) - static_cast<int>(Op::neg)](in(s, 0),
                                                                       SourceLocation::here());
}

Tensor OnDevice::binary(const Statement& s) {
  using Function = Tensor (*)(const Operand&, const Operand&);
  static constexpr Function functions[] = {
      volta::add,     volta::sub,     volta::mul, volta::div,         volta::pow,
      volta::maximum, volta::minimum, volta::lt,  volta::le,          volta::gt,
      volta::ge,      volta::eq,      volta::ne,  volta::logical_and, volta::logical_or};
  return functions[static_cast<int>(s.op) - static_cast<int>(Op::add)](operand(s, 0),
                                                                       operand(s, 1));
}

Tensor OnDevice::network(const Statement& s) {
  const auto optional = [&](std::size_t i) { return i < s.in.size() ? in(s, i) : Tensor(); };
  const Tensor& x = in(s, 0);
  const LossOptions loss{.reduction = static_cast<Reduction>(s.choice)};
  switch (s.op) {
    case Op::matmul:
      return matmul(x, in(s, 1));
    case Op::concat: {
      std::vector<Tensor> parts;
      for (std::size_t i = 0; i < s.in.size(); ++i) parts.push_back(in(s, i));
      return concat(parts, s.dims[0]);
    }
    case Op::linear:
      return linear(x, in(s, 1), optional(2));
    case Op::embedding:
      return embedding(x, in(s, 1));
    case Op::index_add:
      return index_add(x, 0, in(s, 1), in(s, 2));
    case Op::take_along_axis:
      return take_along_axis(x, in(s, 1), s.dims[0]);
    case Op::layer_norm: {
      const std::size_t axes = static_cast<std::size_t>(s.dims[0]);
      return layer_norm(x, Shape(x.shape().sizes().last(axes)), optional(1), optional(2),
                        s.number.value);
    }
    case Op::dropout:
      return dropout(x, s.number.in_round(round_));
    case Op::mse_loss:
      return mse_loss(x, in(s, 1), loss);
    default:
      return cross_entropy(x, in(s, 1), {.reduction = loss.reduction});
  }
}

Tensor OnDevice::view_or_reduction(const Statement& s) {
  const Tensor& x = in(s, 0);
  const std::int64_t axis = s.dims.empty() ? 0 : s.dims[0];
  const std::size_t half = s.dims.size() / 2;
  switch (s.op) {
    case Op::cast:
      return x.to(s.dtype);
    case Op::clone:
      return x.clone();
    case Op::detach:
      return x.detach();
    case Op::alias:
      return x;
    case Op::reshape:
      return x.reshape(shape_of(s.dims));
    case Op::permute:
      return x.permute(s.dims);
    case Op::expand:
      return x.expand(shape_of(s.dims));
    case Op::squeeze:
      return x.squeeze(axis);
    case Op::unsqueeze:
      return x.unsqueeze(axis);
    case Op::narrow:
      return x.narrow(axis, s.dims[1], s.dims[2]);
    case Op::pad:
      return pad(x, std::span(s.dims).first(half), std::span(s.dims).subspan(half), scalar_of(s));
    case Op::sum:
      return s.dims.empty() && !s.flag ? x.sum() : x.sum(s.dims, s.flag);
    case Op::mean:
      return s.dims.empty() ? x.mean() : x.mean(s.dims, s.flag);
    case Op::max:
      return s.dims.empty() ? x.max() : x.max(s.dims, s.flag);
    case Op::min:
      return s.dims.empty() ? x.min() : x.min(s.dims, s.flag);
    case Op::prod:
      return s.dims.empty() ? x.prod() : x.prod(s.dims, s.flag);
    case Op::argmax:
      return s.dims.empty() ? x.argmax() : x.argmax(axis, s.flag);
    case Op::argmin:
      return s.dims.empty() ? x.argmin() : x.argmin(axis, s.flag);
    case Op::stride:
      return x.stride(s.dims);
    case Op::softmax:
      return x.softmax(axis);
    case Op::log_softmax:
      return x.log_softmax(axis);
    case Op::cumsum:
      return x.cumsum(axis);
    case Op::argsort:
      return argsort(x, axis, {.descending = s.flag});
    default:
      return x.grad();
  }
}

Tensor OnDevice::made(const Statement& s) {
  if (s.op <= Op::randint) return created(s);
  if (is_unary(s.op)) return unary(s);
  if (is_binary(s.op)) return binary(s);
  if (s.op == Op::where) return where(in(s, 0), operand(s, 1), operand(s, 2));
  if (s.op >= Op::matmul && s.op <= Op::cross_entropy) return network(s);
  return view_or_reduction(s);
}

void OnDevice::order(const Statement& s) {
  const Tensor& x = in(s, 0);
  const Sorted found = s.op == Op::sort ? sort(x, s.dims[0], {.descending = s.flag})
                                        : topk(x, s.dims[1], s.dims[0], {.largest = s.flag});
  if (s.second >= 0) at(s.second) = found.indices;
  at(s.out) = found.values;
}

void OnDevice::assign_in_place(const Statement& s) {
  Tensor& target = in(s, 0);
  switch (s.op) {
    case Op::add_to:
      target += operand(s, 1);
      break;
    case Op::sub_from:
      target -= operand(s, 1);
      break;
    case Op::mul_by:
      target *= operand(s, 1);
      break;
    case Op::div_by:
      target /= operand(s, 1);
      break;
    case Op::fill:
      target.fill_(scalar_of(s));
      break;
    case Op::copy:
      target.copy_(in(s, 1));
      break;
    default:
      assign(target, in(s, 1));
      break;
  }
}

void OnDevice::update_parameters(const Statement& s, std::size_t position) {
  std::vector<Tensor> parameters;
  for (const int id : s.in) parameters.push_back(at(id));
  Moments& state = moments_[position];
  const double lr = s.number.in_round(round_), decay = s.flag ? kWeightDecay : 0;
  if (s.op == Op::sgd_step) {
    state.first.resize(parameters.size());
    sgd_step(parameters, state.first,
             {.lr = lr, .momentum = s.choice != 0 ? kMomentum : 0, .weight_decay = decay});
    return;
  }
  if (state.first.empty()) {
    for (const Tensor& p : parameters) {
      state.first.push_back(zeros_like(p));
      state.second.push_back(zeros_like(p));
      state.steps.push_back(zeros({}, {.device = device_}));
    }
  }
  adam_step(parameters, state.first, state.second, state.steps,
            {.lr = lr, .beta1 = kBeta1, .beta2 = kBeta2, .eps = kAdamEps, .weight_decay = decay});
}

void OnDevice::step(const Statement& s, std::size_t position) {
  if (s.persistent && round_ > 0) return;
  std::optional<NoGrad> off;
  if (s.no_grad) off.emplace();
  if (is_in_place(s.op)) return assign_in_place(s);
  switch (s.op) {
    case Op::backward:
      if (s.in.size() > 1) return in(s, 0).backward(in(s, 1), {.retain_graph = s.flag});
      return in(s, 0).backward({.retain_graph = s.flag});
    case Op::zero_grad:
      return in(s, 0).zero_grad();
    case Op::sgd_step:
    case Op::adam_step:
      return update_parameters(s, position);
    case Op::drop:
      in(s, 0) = Tensor();
      return;
    case Op::eval:
      in(s, 0).eval();
      return;
    case Op::submit:
      return volta::submit(device_);
    case Op::sort:
    case Op::topk:
      return order(s);
    case Op::look:
    case Op::item:
      return;  // found by the comparison
    default:
      at(s.out) = made(s);
  }
}

// Fills memory that programs of this size will get with NaN, so that elements which a kernel fails
// to write, or reads before they are written, are noticed.
void scribble(Device device) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Tensor> blocks;
  for (const std::size_t count : {8, 32, 128, 512, 2048}) {
    for (int i = 0; i < 24; ++i) {
      blocks.push_back(
          from_vector(std::vector<double>(count, nan), {.dtype = DType::f32, .device = device}));
    }
  }
  // The source of a gather is in the arena.
  const Tensor ids = zeros({1}, {.dtype = DType::i64, .device = device});
  embedding(blocks.back().reshape({2048, 1}) * 1.5, ids).eval();
}

// ---- Comparison. The result is empty if the values are equal.

std::string described(const Array& x, std::string_view dtype) {
  return fmt::format("{} [{}]", dtype, fmt::join(x.dims, ", "));
}

std::string compare_kind(const std::string& name, const Tensor& actual, const Ref& expected) {
  if (actual.defined() != (expected != nullptr)) {
    return fmt::format("{} is {}", name, actual.defined() ? "defined" : "not defined");
  }
  if (!expected) return {};
  const Array& value = expected->value;
  if (actual.dtype() != value.dtype || actual.shape() != shape_of(value.dims)) {
    return fmt::format("{} is {} {}, expected {}", name, volta::name_of(actual.dtype()),
                       to_string(actual.shape()), described(value, volta::name_of(value.dtype)));
  }
  const bool wanted = expected->requires_grad || expected->tape;
  if (actual.requires_grad() != wanted)
    return fmt::format("{} {} a gradient", name, wanted ? "does not require" : "requires");
  return {};
}

// Allows twice the bound, because it is of first order and a device may round at other points.
std::string compare_element(const std::string& name, std::int64_t i, double actual, Num expected) {
  if (expected.e == kUnknown || actual == expected.v) return {};
  if (std::fabs(actual - expected.v) <= 2 * expected.e) return {};
  return fmt::format("{}[{}] is {:.9g}, expected {:.9g} +- {:.2g}", name, i, actual, expected.v,
                     2 * expected.e);
}

std::string compare_values(const std::string& name, const Tensor& actual, const Ref& expected) {
  if (std::string kind = compare_kind(name, actual, expected); !kind.empty() || !expected)
    return kind;
  const std::vector<double> values = actual.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Num& n = expected->value.at[i];
    if (std::string wrong = compare_element(name, static_cast<std::int64_t>(i), values[i], n);
        !wrong.empty()) {
      return wrong;
    }
  }
  return {};
}

std::string compare_after(const Statement& s, OnDevice& device, const Evaluator& reference) {
  const auto name = [](int id) { return fmt::format("t{}", id); };
  for (const int id : {s.second, s.out}) {
    if (id < 0) continue;
    std::string different = compare_kind(name(id), device.at(id), reference.tensor(id));
    if (!different.empty()) return different;
  }
  if (s.op == Op::look)
    return compare_values(name(s.in[0]), device.at(s.in[0]), reference.tensor(s.in[0]));
  if (s.op == Op::item) {
    return compare_element(name(s.in[0]), 0, device.at(s.in[0]).item(),
                           reference.tensor(s.in[0])->value.at[0]);
  }
  return {};
}

std::string compare_all(OnDevice& device, const Evaluator& reference) {
  for (int id = 0; id < reference.tensors(); ++id) {
    const Ref& expected = reference.tensor(id);
    const std::string name = fmt::format("t{}", id);
    if (std::string wrong = compare_values(name, device.at(id), expected); !wrong.empty())
      return wrong;
    if (!expected) continue;
    std::string wrong = compare_values(name + ".grad()", device.at(id).grad(), expected->grad);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

Outcome run(const Program& program, Device target, std::optional<Op> wrong) {
  scribble(target);
  Evaluator reference(program, wrong);
  OnDevice device(program, target);
  for (int round = 0; round < program.rounds; ++round) {
    reference.begin_round(round);
    device.begin_round(round);
    const auto failure = [&](const std::string& what) {
      return Outcome{Outcome::Kind::failed, fmt::format("round {}: {}", round, what), -1};
    };
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      const Statement& s = program.statements[i];
      try {
        reference.step(s, i);
      } catch (const Invalid& e) {
        return {Outcome::Kind::invalid, e.what(), static_cast<int>(i)};
      }
      std::string different;
      try {
        device.step(s, i);
        different = compare_after(s, device, reference);
      } catch (const std::exception& e) {
        different = fmt::format("threw {}", e.what());
      }
      if (!different.empty()) return failure(fmt::format("{}: {}", to_string(s), different));
    }
    try {
      const bool last = round + 1 == program.rounds;
      if (last || program.end == RoundEnd::look) {
        const std::string different = compare_all(device, reference);
        if (!different.empty()) return failure(different);
      } else if (program.end == RoundEnd::submit) {
        submit(target);
      }
    } catch (const std::exception& e) {
      return failure(fmt::format("looking threw {}", e.what()));
    }
    reference.end_round();
    device.end_round();
  }
  return {};
}

Outcome check(const Program& program) {
  Evaluator reference(program);
  for (int round = 0; round < program.rounds; ++round) {
    reference.begin_round(round);
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      try {
        reference.step(program.statements[i], i);
      } catch (const Invalid& e) {
        return {Outcome::Kind::invalid, e.what(), static_cast<int>(i)};
      }
    }
    reference.end_round();
  }
  return {};
}

}  // namespace volta::random_graph
