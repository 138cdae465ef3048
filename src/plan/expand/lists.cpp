// Which operations work on lists, and how their inputs are laid out.
#include "plan/expand/lists.h"

namespace volta::graph {

std::optional<UpdateList> update_list(const Node& node, std::size_t outputs) {
  switch (node.op) {
    case OpId::sgd:
    case OpId::adam:
    case OpId::rmsprop:
    case OpId::adagrad:
    case OpId::lion:
    case OpId::muon:
      break;
    default:
      return std::nullopt;
  }
  UpdateList list{.count = static_cast<std::size_t>(node.attrs[0])};
  list.outputs_each = outputs / list.count;
  // Results are the value and the states; inputs are the same and the gradient. The first momentum
  // of SGD has no state before it.
  const bool creates_momentum = node.op == OpId::sgd && node.attrs[1] != 0 && node.attrs[5] != 0;
  list.inputs_each = list.outputs_each + (creates_momentum ? 0 : 1);
  return list;
}

bool reduces_list(OpId op) { return op == OpId::total_norm || op == OpId::any_nonfinite; }

}  // namespace volta::graph
