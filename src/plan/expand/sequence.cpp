// Follows elementwise operations from a sequence to what lies in memory.
#include "plan/expand/sequence.h"

#include <algorithm>
#include <utility>

#include "plan/calls/matmul.h"

namespace volta::graph::expand {

using plan::Expr;
using plan::Lowering;
using plan::Value;
using plan::ValueKind;

namespace {

// More operations than that are done once, in front of the loop.
constexpr std::size_t kMostItems = 16;

// What the views that only repeat elements show.
Expr behind_repeats(const Lowering& l, Expr e) {
  while (l.at(e).kind == ValueKind::Expand || l.at(e).kind == ValueKind::Reshape)
    e.id = l.at(e).in[0];
  return e;
}

// Numbers that follow from a position are computed where they are used, never read.
bool is_position(ValueKind kind) { return kind == ValueKind::Iota || kind == ValueKind::Philox; }

// Whether the value exchanges length and batch of a sequence of shape `all`. `batch_first`:
// the sequence is [batch, length, size].
bool swaps_length_and_batch(const Value& value, const plan::Shape& all, bool batch_first) {
  // Kernels that read a step of a larger one would need 64-bit indices, which their sizes do not
  // tell.
  constexpr std::int64_t kMostElements = std::int64_t{1} << 30;
  if (value.attrs != std::vector<plan::Extent>{1, 0, 2} || all.numel() > kMostElements)
    return false;
  const int length = batch_first ? 1 : 0;
  return is_same(value.shape[length], all[0]) && is_same(value.shape[1 - length], all[1]);
}

}  // namespace

LoopedSequence::LoopedSequence(Lowering& l, Expr sequence, std::vector<Expr>& operands)
    : all_(sequence.shape()), step_{sequence.shape()[1], sequence.shape()[2]} {
  const std::vector<Expr> before = operands;
  add(l, sequence, false, operands);
  const bool positions = std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    return item.operand >= 0 &&
           is_position(l.at(operands[static_cast<std::size_t>(item.operand)]).kind);
  });
  if (items_.size() <= kMostItems && !positions) return;
  items_.clear();
  operands = before;
  add_step(sequence, false, operands);
}

// The number of the item. Operands of elementwise operations have their shape, and reshapes keep
// the order of elements, so that a step is the same part of all of them.
// `depth` counts the values on the way from the sequence, which are not among the items yet.
int LoopedSequence::add(Lowering& l, Expr e, bool batch_first, std::vector<Expr>& operands,
                        std::size_t depth) {
  const Value value = l.at(e);
  if (items_.size() + depth > kMostItems) return add_step(e, batch_first, operands);
  if (value.kind == ValueKind::Reshape && !batch_first)
    return add(l, {&l, value.in[0]}, false, operands, depth + 1);
  if (value.kind == ValueKind::Permute && swaps_length_and_batch(value, all_, batch_first))
    return add(l, {&l, value.in[0]}, !batch_first, operands, depth + 1);
  if (value.kind == ValueKind::Expand) return add_expanded(l, e, batch_first, operands);
  // A product rounds its result itself.
  const bool rounds = value.kind == ValueKind::Cast && is_matmul(l.at({&l, value.in[0]})) &&
                      l.multiplies_halves(value.dtype);
  if (!value.is_pointwise() || rounds) return add_step(e, batch_first, operands);
  Item item{Item::Kind::Computed, value};
  for (plan::ValueId& in : item.value.in) {
    if (!in.is_none()) in = add(l, {&l, in}, batch_first, operands, depth + 1);
  }
  items_.push_back(std::move(item));
  return static_cast<int>(items_.size()) - 1;
}

int LoopedSequence::add_expanded(Lowering& l, Expr e, bool batch_first,
                                 std::vector<Expr>& operands) {
  const Expr source{&l, l.at(e).in[0]};
  const Value& number = l.at(behind_repeats(l, source));
  const plan::Shape shape = source.shape();
  const bool is_row = shape.rank() > 0 && shape.numel() == shape[shape.rank() - 1] &&
                      shape[shape.rank() - 1] == step_[1] &&
                      e.shape()[e.shape().rank() - 1] == step_[1];
  if (shape.numel() != 1 && !is_row) return add_step(e, batch_first, operands);
  if (number.kind == ValueKind::Const || number.kind == ValueKind::Arg) {
    items_.push_back({Item::Kind::Number, number});
  } else {
    items_.push_back({Item::Kind::Whole,
                      {.kind = ValueKind::Leaf, .dtype = source.dtype()},
                      static_cast<int>(operands.size())});
    items_.back().value.shape = is_row ? plan::Shape{step_[1]} : plan::Shape{};
    operands.push_back(source);
  }
  return static_cast<int>(items_.size()) - 1;
}

int LoopedSequence::add_step(Expr e, bool batch_first, std::vector<Expr>& operands) {
  items_.push_back({batch_first ? Item::Kind::BatchFirst : Item::Kind::Step,
                    {.kind = ValueKind::Leaf, .dtype = e.dtype()},
                    static_cast<int>(operands.size())});
  operands.push_back(e);
  return static_cast<int>(items_.size()) - 1;
}

Expr LoopedSequence::step(plan::BodyWriter& w, const plan::Walked& walked) const {
  std::vector<Expr> made;
  for (const Item& item : items_) {
    switch (item.kind) {
      case Item::Kind::Step:
        made.push_back(w.step_of(item.operand, walked, step_, item.value.dtype));
        break;
      case Item::Kind::BatchFirst:
        made.push_back(w.step_of_turned(item.operand, walked, step_, item.value.dtype));
        break;
      case Item::Kind::Whole:
        made.push_back(
            w.l.expand(w.whole(item.operand, item.value.shape, item.value.dtype), step_));
        break;
      case Item::Kind::Number:
        made.push_back(w.l.expand(w.l.insert(item.value), step_));
        break;
      case Item::Kind::Computed: {
        Value value = item.value;
        value.shape = step_;
        value.stored = false;
        for (plan::ValueId& in : value.in) {
          if (!in.is_none()) in = made[in.index()].id;
        }
        made.push_back(w.l.insert(std::move(value)));
        break;
      }
    }
  }
  return made.back();
}

}  // namespace volta::graph::expand
