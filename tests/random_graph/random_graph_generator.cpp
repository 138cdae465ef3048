// Draws random programs.
#include "random_graph/random_graph_generator.h"

#include <algorithm>
#include <cmath>

#include "random_graph/random_graph_drawing.h"
#include "random_graph/random_graph_runner.h"
#include "random_graph/random_graph_shrink.h"

namespace volta::random_graph {

// ---- Drawing parts of statements.

Dims Generator::some_dims() {
  const std::int64_t roll = random_.below(100);
  const int rank = roll < 8 ? 0 : roll < 32 ? 1 : roll < 70 ? 2 : roll < 92 ? 3 : 4;
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(random_.chance(14) ? 1 : random_.pick(extents_));
  while (numel_of(dims) > most_elements_) *std::max_element(dims.begin(), dims.end()) = 1;
  return dims;
}

DType Generator::some_float() { return random_.chance(85) ? main_ : random_.pick(options_.floats); }

Number Generator::some_number() {
  static const std::vector<double> literals{0, 1, -1, 2, 0.5};
  static const std::vector<double> others{0.37, -1.7, 3, 0.125, -0.6, 1.25, 2.5};
  const bool literal = random_.chance(35);
  Number n{random_.pick(literal ? literals : others), false, !literal && random_.chance(60)};
  if (n.value == std::floor(n.value) && random_.chance(70)) n.integer = true;
  return n;
}

// A held tensor that is `wanted`, preferably a recent one; -1 if there is none.
int Generator::some(const std::function<bool(const Variable&)>& wanted) {
  std::vector<int> found;
  for (int id = 0; id < reference_.tensors(); ++id) {
    if (reference_.tensor(id) && wanted(*reference_.tensor(id))) found.push_back(id);
  }
  if (found.empty()) return -1;
  const std::int64_t count = static_cast<std::int64_t>(found.size());
  const std::int64_t back =
      random_.chance(55) ? random_.below(std::min<std::int64_t>(count, 3)) : random_.below(count);
  return found[static_cast<std::size_t>(count - 1 - back)];
}

int Generator::some_floating() {
  return some([](const Variable& v) { return is_floating(v.value.dtype); });
}

bool Generator::acceptable(const Array& x) const {
  if (x.numel() > 4 * most_elements_ || x.rank() > 6) return false;
  double largest = 0, error = 0;
  for (const Num& n : x.at) {
    largest = std::max(largest, std::fabs(n.v));
    error = std::max(error, n.e);
  }
  return error <= 0.05 * largest + 1e-6;
}

// Appends the statement if the reference can run it and its result can be compared.
bool Generator::emit(Statement s) {
  const bool makes = s.op <= Op::cross_entropy || s.op == Op::grad;
  const bool second = s.second >= 0;
  if (makes) s.out = next_;
  if (second) s.second = next_ + 1;
  if (!makes || gradients_) s.no_grad = s.no_grad || (gradients_ && random_.chance(8));
  const std::uint64_t offset = reference_.random_offset();
  const Ref target = is_in_place(s.op) ? reference_.tensor(s.in[0]) : nullptr;
  const Variable before = target ? *target : Variable{};
  try {
    reference_.step(s, program_.statements.size());
  } catch (const Invalid&) {
    return false;
  }
  const Array* result = makes ? &value_of(s.out) : target ? &target->value : nullptr;
  if ((result != nullptr && !acceptable(*result)) || (second && !acceptable(value_of(s.second)))) {
    if (target) *target = before;
    if (makes) reference_.set_tensor(s.out, nullptr);
    if (second) reference_.set_tensor(s.second, nullptr);
    reference_.set_random_offset(offset);
    return false;
  }
  if (makes) next_ += second ? 2 : 1;
  program_.statements.push_back(std::move(s));
  return true;
}

int Generator::leaf(const Dims& dims, DType dtype, Fill fill, bool grad) {
  Statement s;
  s.op = Op::data;
  s.dims = dims;
  s.dtype = dtype;
  s.fill = fill;
  s.flag = grad && is_floating(dtype);
  s.persistent = random_.chance(s.flag ? 60 : 20);
  return emit(s) ? next_ - 1 : -1;
}

Program Generator::run() {
  static const std::vector<std::int64_t> sizes{2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33};
  for (int i = 0; i < 3; ++i) extents_.push_back(random_.pick(sizes));
  // No elements; long rows; rows that are reduced in chunks; products for a library.
  using Sizes = std::vector<std::int64_t>;
  const std::int64_t special = random_.below(100);
  if (special < 2) {
    extents_.push_back(0);
  } else if (special < 14) {
    extents_.push_back(random_.pick(Sizes{64, 65, 100, 130, 257}));
  } else if (special < 18 && options_.large) {
    extents_.push_back(random_.pick(Sizes{1030, 4200, 9001}));
    most_elements_ = 10000;
  } else if (special < 28 && options_.large) {
    for (std::int64_t& extent : extents_) extent = random_.pick(Sizes{40, 48, 56, 64});
    most_elements_ = 5000;
  }
  main_ = random_.chance(60) ? options_.floats[0] : random_.pick(options_.floats);
  gradients_ = random_.chance(55);
  program_.drops_at_end = random_.chance(60);
  const std::int64_t end = random_.below(100);
  program_.end = end < 60 ? RoundEnd::look : end < 85 ? RoundEnd::submit : RoundEnd::nothing;
  reference_.begin_round(0);

  static constexpr Kind kinds[] = {
      {8, &Generator::draw_leaf},       {16, &Generator::draw_unary},
      {24, &Generator::draw_binary},    {4, &Generator::draw_where},
      {6, &Generator::draw_copy},       {17, &Generator::draw_view},
      {11, &Generator::draw_reduction}, {4, &Generator::draw_softmax},
      {5, &Generator::draw_matmul},     {2, &Generator::draw_linear},
      {3, &Generator::draw_embedding},  {3, &Generator::draw_layer_norm},
      {3, &Generator::draw_cumsum},     {5, &Generator::draw_order},
      {3, &Generator::draw_take_along}, {3, &Generator::draw_index_add},
      {2, &Generator::draw_dropout},    {3, &Generator::draw_loss},
      {4, &Generator::draw_concat},     {9, &Generator::draw_in_place},
      {6, &Generator::draw_backward},   {3, &Generator::draw_gradient},
      {3, &Generator::draw_update},     {7, &Generator::draw_drop},
      {6, &Generator::draw_look}};
  int total = 0;
  for (const Kind& kind : kinds) total += kind.weight;

  const int wanted = 4 + static_cast<int>(random_.below(options_.most_statements - 3));
  draw_leaf();
  draw_leaf();
  for (int tries = 0; tries < 20 * wanted && static_cast<int>(program_.statements.size()) < wanted;
       ++tries) {
    std::int64_t roll = random_.below(total);
    const Kind* kind = kinds;
    while (roll >= kind->weight) roll -= (kind++)->weight;
    (this->*kind->draw)();
  }
  if (gradients_ && random_.chance(60)) draw_backward();
  return program_;
}

Program generated(std::uint64_t seed, const GeneratorOptions& options) {
  Program program = Generator(seed, options).run();
  // Statements that a later round cannot run are removed.
  for (Outcome outcome = check(program); outcome.kind == Outcome::Kind::invalid;
       outcome = check(program)) {
    program = without(program, static_cast<std::size_t>(outcome.position));
  }
  return program;
}

}  // namespace volta::random_graph
