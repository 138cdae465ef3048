// Draws one statement of each kind.
#include <algorithm>
#include <cmath>

#include "random_graph/random_graph_drawing.h"

namespace volta::random_graph {

bool Generator::draw_leaf() {
  Statement s;
  s.dims = some_dims();
  const std::int64_t roll = random_.below(100);
  const bool grad = gradients_ && random_.chance(50);
  if (roll < 66) {
    static const std::vector<DType> integral{DType::i64, DType::i32, DType::u8, DType::boolean};
    static const std::vector<Fill> fills{Fill::numbers, Fill::numbers, Fill::positive,
                                         Fill::integers};
    const DType dtype = random_.chance(20) ? random_.pick(integral) : some_float();
    return leaf(s.dims, dtype, random_.pick(fills), grad) >= 0;
  }
  s.dtype = some_float();
  s.persistent = random_.chance(20);
  if (roll < 80) {
    s.op = Op::full;
    s.number = some_number();
    if (random_.chance(20) && s.number.value >= 0 && s.number.integer) {
      s.dtype = random_.pick(std::vector{DType::i64, DType::i32, DType::u8});
    } else {
      s.flag = grad && random_.chance(30);
    }
  } else if (roll < 86) {
    s.op = Op::arange;
    s.dims = {random_.pick(extents_)};
    if (random_.chance(60)) s.dtype = DType::i64;
  } else {
    s.op = random_.pick(std::vector{Op::rand, Op::uniform, Op::randn});
    s.number = {-1.5, false, true};
  }
  return emit(s);
}

bool Generator::draw_unary() {
  Statement s;
  s.op =
      static_cast<Op>(static_cast<int>(Op::neg) + random_.below(static_cast<int>(Op::logical_not) -
                                                                static_cast<int>(Op::neg) + 1));
  const int x = random_.chance(85) ? some_floating() : some_tensor();
  if (x < 0) return false;
  s.in = {x};
  if (emit(s)) return true;
  // First maps the operand into the domain.
  Statement guard;
  guard.op = Op::abs;
  guard.in = {x};
  if (!emit(guard)) return false;
  guard.op = Op::add;
  guard.in = {next_ - 1, -1};
  guard.number = {0.5, false, false};
  if (!emit(guard)) return false;
  s.in = {next_ - 1};
  return emit(s);
}

bool Generator::draw_binary() {
  static const std::vector<Op> arithmetic{Op::add,     Op::add,     Op::sub, Op::sub,
                                          Op::mul,     Op::mul,     Op::mul, Op::div,
                                          Op::maximum, Op::minimum, Op::pow};
  Statement s;
  s.op = random_.chance(75) ? random_.pick(arithmetic)
                            : static_cast<Op>(static_cast<int>(Op::lt) +
                                              random_.below(static_cast<int>(Op::logical_or) -
                                                            static_cast<int>(Op::lt) + 1));
  const int a = some_tensor();
  if (a < 0) return false;
  s.number = some_number();
  if (random_.chance(30)) {
    s.in = random_.chance(70) ? std::vector{a, -1} : std::vector{-1, a};
    return emit(s);
  }
  const Dims& dims = value_of(a).dims;
  const int b = some([&](const Variable& v) {
    try {
      return numel_of(broadcast(dims, v.value.dims)) <= most_elements_;
    } catch (const Invalid&) {
      return false;
    }
  });
  s.in = {a, b};
  return b >= 0 && emit(s);
}

bool Generator::draw_where() {
  int condition = some([](const Variable& v) { return v.value.dtype == DType::boolean; });
  if (condition < 0) {
    Statement c;
    c.op = random_.chance(50) ? Op::lt : Op::ge;
    c.number = {0.3, false, true};
    c.in = {some_tensor(), -1};
    if (c.in[0] < 0 || !emit(c)) return false;
    condition = next_ - 1;
  }
  Statement s;
  s.op = Op::where;
  s.number = some_number();
  s.in = {condition, some_tensor(), random_.chance(30) ? -1 : some_tensor()};
  if (s.in[1] < 0) return false;
  if (s.in[2] < 0 && random_.chance(40)) std::swap(s.in[1], s.in[2]);
  return emit(s);
}

bool Generator::draw_copy() {
  Statement s;
  s.in = {some_tensor()};
  if (s.in[0] < 0) return false;
  const std::int64_t roll = random_.below(100);
  if (roll < 55) {
    s.op = Op::cast;
    std::vector<DType> dtypes{DType::i64, DType::i32, DType::u8, DType::boolean};
    for (int twice = 0; twice < 2; ++twice)
      dtypes.insert(dtypes.end(), options_.floats.begin(), options_.floats.end());
    s.dtype = random_.pick(dtypes);
    if (s.dtype == value_of(s.in[0]).dtype) return false;
  } else {
    s.op = roll < 67 ? Op::clone : roll < 79 ? Op::detach : Op::alias;
  }
  return emit(s);
}

bool Generator::draw_view() {
  Statement s;
  s.in = {some_tensor()};
  if (s.in[0] < 0) return false;
  const Array& x = value_of(s.in[0]);
  const int rank = x.rank();
  switch (random_.below(9)) {
    case 0:
    case 1: {  // joins or splits axes
      s.op = Op::reshape;
      s.dims = x.dims;
      for (int i = 0; i < 2; ++i) {
        const std::size_t count = s.dims.size();
        if (count >= 2 && random_.chance(55)) {
          const std::size_t at =
              static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(count) - 1));
          s.dims[at] *= s.dims[at + 1];
          s.dims.erase(s.dims.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        } else if (count >= 1 && count < 5) {
          const std::size_t at =
              static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(count)));
          for (const std::int64_t factor : {4, 3, 2, 5, 7}) {
            if (s.dims[at] % factor != 0 || s.dims[at] == 0) continue;
            s.dims[at] /= factor;
            s.dims.insert(s.dims.begin() + static_cast<std::ptrdiff_t>(at), factor);
            break;
          }
        }
      }
      return emit(s);
    }
    case 2:
    case 3: {
      if (rank < 2) return false;
      s.op = Op::permute;
      s.dims = all_axes(x);
      for (int i = rank - 1; i > 0; --i)
        std::swap(s.dims[static_cast<std::size_t>(i)],
                  s.dims[static_cast<std::size_t>(random_.below(i + 1))]);
      return emit(s);
    }
    case 4: {
      s.op = Op::expand;
      s.dims = x.dims;
      for (std::int64_t& d : s.dims) {
        if (d == 1) d = random_.pick(extents_);
      }
      if (random_.chance(50) && rank < 4) s.dims.insert(s.dims.begin(), random_.pick(extents_));
      return numel_of(s.dims) <= most_elements_ && emit(s);
    }
    case 5: {
      s.op = random_.chance(50) ? Op::squeeze : Op::unsqueeze;
      if (s.op == Op::squeeze && rank == 0) return false;
      s.dims = {random_.below(s.op == Op::squeeze ? rank : rank + 1)};
      return emit(s);
    }
    case 6: {
      if (rank == 0) return false;
      s.op = Op::narrow;
      const std::int64_t axis = some_axis(x), size = x.dims[static_cast<std::size_t>(axis)];
      const std::int64_t start = random_.below(size + 1);
      s.dims = {axis, start, random_.below(size - start + 1)};
      if (s.dims[2] == 0 && random_.chance(95)) return false;
      return emit(s);
    }
    case 7: {
      if (rank == 0) return false;
      s.op = Op::stride;
      for (int i = 0; i < rank; ++i)
        s.dims.push_back(random_.chance(50) ? 1 : random_.pick(Dims{-1, -1, 2, 3, -2}));
      return emit(s);
    }
    default: {
      if (rank == 0) return false;
      s.op = Op::pad;
      for (int i = 0; i < 2 * rank; ++i)
        s.dims.push_back(random_.chance(40) ? random_.below(4) : 0);
      s.number = random_.chance(60) ? Number{0, true, false} : some_number();
      if (!is_floating(x.dtype)) s.number = {std::floor(std::fabs(s.number.value)), true, false};
      return emit(s);
    }
  }
}

bool Generator::draw_reduction() {
  Statement s;
  s.op = random_.pick(std::vector{Op::sum, Op::sum, Op::sum, Op::mean, Op::mean, Op::max, Op::max,
                                  Op::min, Op::prod, Op::argmax, Op::argmin});
  s.in = {s.op == Op::mean || random_.chance(80) ? some_floating() : some_tensor()};
  if (s.in[0] < 0) return false;
  const Array& x = value_of(s.in[0]);
  if (x.rank() > 0 && random_.chance(80)) {
    s.flag = random_.chance(40);
    s.dims = {some_axis(x)};
    const bool along_one = s.op == Op::argmax || s.op == Op::argmin;
    if (!along_one && x.rank() > 1 && random_.chance(35)) {
      const std::int64_t other = some_axis(x);
      if (other != s.dims[0]) s.dims.push_back(other);
      std::sort(s.dims.begin(), s.dims.end());
    }
  }
  if (s.op == Op::prod) {  // long products overflow in some orders
    std::int64_t length = s.dims.empty() ? x.numel() : 1;
    for (const std::int64_t axis : s.dims) length *= x.dims[static_cast<std::size_t>(axis)];
    if (length > 24) return false;
  }
  return emit(s);
}

bool Generator::draw_concat() {
  const int first = some([](const Variable& v) { return v.value.rank() > 0; });
  if (first < 0) return false;
  Statement s;
  s.op = Op::concat;
  const std::int64_t axis = some_axis(value_of(first));
  s.dims = {axis};
  s.in = {first};
  const Dims& dims = value_of(first).dims;
  for (std::int64_t more = 1 + random_.below(3); more > 0; --more) {
    s.in.push_back(some([&](const Variable& v) {
      Dims other = v.value.dims;
      if (other.size() != dims.size()) return false;
      other[static_cast<std::size_t>(axis)] = dims[static_cast<std::size_t>(axis)];
      return other == dims && 3 * v.value.numel() <= most_elements_;
    }));
    if (s.in.back() < 0) s.in.back() = first;
  }
  return emit(s);
}

bool Generator::draw_softmax() {
  Statement s;
  s.op = random_.chance(60) ? Op::softmax : Op::log_softmax;
  s.in = {some([](const Variable& v) { return is_floating(v.value.dtype) && v.value.rank() > 0; })};
  if (s.in[0] < 0) return false;
  s.dims = {some_axis(value_of(s.in[0]))};
  return emit(s);
}

bool Generator::draw_matmul() {
  Statement s;
  s.op = Op::matmul;
  const int a = some([](const Variable& v) {
    return v.value.rank() > 0 && v.value.dtype != DType::boolean && v.value.dims.back() <= 300;
  });
  if (a < 0) return false;
  const std::int64_t k = value_of(a).dims.back();
  int b = some([&](const Variable& v) {
    const Dims& d = v.value.dims;
    return !d.empty() && d[d.size() < 2 ? 0 : d.size() - 2] == k &&
           v.value.numel() * value_of(a).numel() <= 1'000'000 * k;
  });
  if (b < 0 || random_.chance(30)) {
    std::int64_t columns = random_.pick(extents_);
    if (columns * value_of(a).numel() > 1'000'000) columns = 3;
    b = leaf({k, columns}, value_of(a).dtype, Fill::numbers, gradients_ && random_.chance(50));
  }
  s.in = {a, b};
  return b >= 0 && emit(s);
}

bool Generator::draw_linear() {
  Statement s;
  s.op = Op::linear;
  const int x = some([](const Variable& v) {
    return is_floating(v.value.dtype) && v.value.rank() > 0 && v.value.dims.back() <= 300;
  });
  if (x < 0) return false;
  const std::int64_t in = value_of(x).dims.back();
  const DType dtype = value_of(x).dtype;
  std::int64_t out = random_.pick(extents_);
  if (out * value_of(x).numel() > 1'000'000) out = 3;
  const int weight = leaf({out, in}, dtype, Fill::numbers, gradients_ && random_.chance(80));
  if (weight < 0) return false;
  s.in = {x, weight};
  if (random_.chance(60)) {
    const int bias = leaf({out}, dtype, Fill::numbers, gradients_ && random_.chance(80));
    if (bias >= 0) s.in.push_back(bias);
  }
  return emit(s);
}

bool Generator::draw_layer_norm() {
  Statement s;
  s.op = Op::layer_norm;
  const int x = some([](const Variable& v) {
    return is_floating(v.value.dtype) && v.value.rank() > 0 && v.value.dims.back() > 1;
  });
  if (x < 0) return false;
  const Array& value = value_of(x);
  const int axes = value.rank() > 1 && random_.chance(30) ? 2 : 1;
  const Dims normalized(value.dims.end() - axes, value.dims.end());
  const DType dtype = value.dtype;
  s.in = {x};
  s.dims = {axes};
  s.number = {random_.chance(50) ? 1e-5 : 0.1, false, false};
  if (random_.chance(60)) {
    const int weight = leaf(normalized, dtype, Fill::positive, gradients_);
    if (weight < 0) return false;
    s.in.push_back(weight);
    if (random_.chance(70)) {
      const int bias = leaf(normalized, dtype, Fill::numbers, gradients_);
      if (bias >= 0) s.in.push_back(bias);
    }
  }
  return emit(s);
}

bool Generator::draw_dropout() {
  Statement s;
  s.op = Op::dropout;
  s.in = {some_floating()};
  s.number = {random_.chance(50) ? 0.5 : 0.2, false, random_.chance(30)};
  return s.in[0] >= 0 && emit(s);
}

bool Generator::draw_loss() {
  Statement s;
  s.choice = static_cast<int>(random_.below(3));
  if (random_.chance(50)) {
    s.op = Op::mse_loss;
    const int x = some_floating();
    if (x < 0) return false;
    const Dims dims = value_of(x).dims;
    int y = some([&](const Variable& v) { return v.value.dims == dims; });
    if (y == x) y = leaf(dims, value_of(x).dtype, Fill::numbers, false);
    s.in = {x, y};
    return y >= 0 && emit(s);
  }
  s.op = Op::cross_entropy;
  int logits = some([](const Variable& v) {
    return is_floating(v.value.dtype) && v.value.rank() == 2 && v.value.dims[1] > 0 &&
           v.value.dims[0] <= 64;
  });
  if (logits < 0)
    logits = leaf({6, random_.pick(extents_)}, some_float(), Fill::numbers, gradients_);
  if (logits < 0 || value_of(logits).dims[1] == 0) return false;
  const Dims rows{value_of(logits).dims[0]};
  const int labels = ids_below(value_of(logits).dims[1], &rows);
  s.in = {logits, labels};
  return labels >= 0 && emit(s);
}

bool Generator::draw_in_place() {
  Statement s;
  const int target = some_tensor();
  if (target < 0) return false;
  const Dims dims = value_of(target).dims;
  s.op = random_.pick(std::vector{Op::add_to, Op::add_to, Op::sub_from, Op::mul_by, Op::div_by,
                                  Op::fill, Op::copy, Op::assign});
  s.no_grad = reference_.tensor(target)->requires_grad || random_.chance(15);
  s.number = some_number();
  s.in = {target};
  if (s.op == Op::fill) {
    if (!is_floating(value_of(target).dtype))
      s.number = {std::floor(std::fabs(s.number.value)), true, false};
    return emit(s);
  }
  const bool whole = s.op == Op::copy || s.op == Op::assign;
  if (!whole && random_.chance(35)) {
    s.in.push_back(-1);
    return emit(s);
  }
  const int other = some([&](const Variable& v) {
    if (whole) return v.value.dims == dims;
    try {
      return broadcast(dims, v.value.dims) == dims;
    } catch (const Invalid&) {
      return false;
    }
  });
  s.in.push_back(other);
  return other >= 0 && (!whole || other != target) && emit(s);
}

bool Generator::draw_backward() {
  Statement s;
  s.op = Op::backward;
  const bool leaves = random_.chance(8);
  const int root = some(
      [&](const Variable& v) { return leaves ? v.requires_grad : v.tape && !v.tape->consumed; });
  if (root < 0) return false;
  s.in = {root};
  s.flag = random_.chance(30);
  const Dims dims = value_of(root).dims;
  if (value_of(root).numel() != 1) {
    if (random_.chance(40)) {
      s.in.push_back(some([&](const Variable& v) { return v.value.dims == dims; }));
    } else {
      Statement total;
      total.op = random_.chance(50) ? Op::sum : Op::mean;
      total.in = {root};
      if (!emit(total)) return false;
      s.in = {next_ - 1};
    }
  }
  if (!emit(s)) return false;
  // Often uses the gradients, by reading them or by an update.
  if (random_.chance(35)) draw_gradient();
  if (random_.chance(50)) draw_update();
  if (random_.chance(25)) draw_gradient();
  return true;
}

bool Generator::draw_gradient() {
  Statement s;
  s.op = random_.chance(70) ? Op::grad : Op::zero_grad;
  s.in = {some([](const Variable& v) { return v.grad != nullptr; })};
  return s.in[0] >= 0 && emit(s);
}

bool Generator::draw_update() {
  Statement s;
  s.op = random_.chance(55) ? Op::sgd_step : Op::adam_step;
  s.choice = static_cast<int>(random_.below(2));
  s.flag = random_.chance(30);
  s.number = {0.05, false, random_.chance(30)};
  for (int i = 0; i < 3; ++i) {
    const int p = some([](const Variable& v) {
      return v.grad && v.requires_grad && unit_of(v.value.dtype) <= unit_of(DType::f32);
    });
    bool fresh = p >= 0;
    for (const int other : s.in) fresh = fresh && reference_.tensor(p) != reference_.tensor(other);
    if (fresh) s.in.push_back(p);
  }
  return !s.in.empty() && emit(s);
}

bool Generator::draw_drop() {
  Statement s;
  s.op = Op::drop;
  s.in = {some_tensor()};
  if (s.in[0] < 0) return false;
  for (const Statement& other : program_.statements) {
    if (other.out == s.in[0] && other.persistent) return false;
  }
  return emit(s);
}

bool Generator::draw_look() {
  Statement s;
  const std::int64_t roll = random_.below(100);
  s.op = roll < 30 ? Op::look : roll < 50 ? Op::item : roll < 80 ? Op::eval : Op::submit;
  if (s.op == Op::submit) return emit(s);
  s.in = {s.op == Op::item ? some([](const Variable& v) { return v.value.numel() == 1; })
                           : some_tensor()};
  return s.in[0] >= 0 && emit(s);
}

}  // namespace volta::random_graph
