// Sums over values that were computed in f32 and would be rounded to halves only for the sum.
#include <vector>

#include "plan/lower/lowering.h"

namespace volta::plan {

using graph::Node;
using graph::OpId;

void Lowering::count_readers() {
  readers_.assign(view_->nodes().size(), 0);
  for (const Node* node : view_->nodes()) {
    for (std::uint32_t i = 0; i < node->inputs_count; ++i) {
      const std::uint32_t input = view_->number(*node->inputs[i]);
      if (input != BatchView::kNone) ++readers_[input];
    }
  }
}

bool Lowering::has_one_reader(const Node& node) const {
  const std::uint32_t number = view_->number(node);
  return number != BatchView::kNone && view_->wanted(number) == Wanted::No && readers_[number] == 1;
}

// A gradient that was broadcast is only computed to be summed, and rounding its terms first would
// lose as many digits as there are terms. There may be views between the rounding and the sum.
Expr Lowering::unrounded_in(std::size_t i) {
  const Node* source = node_->inputs[i];
  std::vector<const Node*> views;
  while (has_one_reader(*source) && (source->op == OpId::reshape || source->op == OpId::permute)) {
    views.push_back(source);
    source = source->inputs[0];
  }
  const ValueId value = graph_.value_of(*source);
  if (!has_one_reader(*source) || value.is_none()) return in(i);
  const Value& rounded = values_[value];
  if (rounded.kind != ValueKind::Cast || !is_half(rounded.dtype) ||
      values_[rounded.in[0]].dtype != DType::f32) {
    return in(i);
  }
  Expr x{this, rounded.in[0]};
  for (std::size_t n = views.size(); n-- > 0;) {
    x = views[n]->op == OpId::reshape ? reshape(x, sizes_.shape(*views[n]))
                                      : permute(x, views[n]->attr_span());
  }
  return x;
}

}  // namespace volta::plan
