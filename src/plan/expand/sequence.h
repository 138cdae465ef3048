// Sequences as the iterations of a loop read them.
#pragma once

#include <vector>

#include "plan/calls/loop.h"

namespace volta::graph::expand {

// A sequence [length, batch, size] that a loop reads step by step. Elementwise operations at its
// end are done by the iterations, each for its step, so that their results need not be in memory:
// the bias of a product, the sum of two gradients, a rounding.
class LoopedSequence {
 public:
  LoopedSequence() = default;
  // Adds what is read from memory to the operands of the loop.
  LoopedSequence(plan::Lowering& l, plan::Expr sequence, std::vector<plan::Expr>& operands);

  bool is_none() const { return items_.empty(); }
  // The iteration's step, [batch, size].
  plan::Expr step(plan::BodyWriter& w, const plan::Walked& walked) const;

 private:
  // What a step is computed from.
  struct Item {
    enum class Kind : std::uint8_t {
      Computed,    // `value`, whose operands are items
      Step,        // of operand `operand`
      BatchFirst,  // the same of an operand [batch, length, size]
      Whole,       // operand `operand`: one element, or one for each element of a row
      Number       // `value`, a constant or an argument
    };
    Kind kind;
    plan::Value value = {.kind = plan::ValueKind::Leaf};
    int operand = -1;
  };
  // Adds the item of a value. `batch_first`: the value is [batch, length, size].
  int add(plan::Lowering& l, plan::Expr e, bool batch_first, std::vector<plan::Expr>& operands,
          std::size_t depth = 0);
  int add_expanded(plan::Lowering& l, plan::Expr e, bool batch_first,
                   std::vector<plan::Expr>& operands);
  int add_step(plan::Expr e, bool batch_first, std::vector<plan::Expr>& operands);

  std::vector<Item> items_;  // the last one is the step
  plan::Shape all_;          // [length, batch, size]
  plan::Shape step_;         // [batch, size]
};

}  // namespace volta::graph::expand
