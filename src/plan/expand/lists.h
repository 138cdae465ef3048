// Operations over lists of any length: updates of all parameters, and reductions over all tensors
// of a list. Each is the same work for one element after another, so it can be planned in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "graph/record/node.h"

namespace volta::graph {

// An update of a list: `count` times the inputs and outputs of an element, then inputs that all
// elements share. The first attribute is the number of elements.
struct UpdateList {
  std::size_t count = 0, inputs_each = 0, outputs_each = 0;
};
// Nothing if the operation is no update. `outputs`: how many results were recorded.
std::optional<UpdateList> update_list(const Node& node, std::size_t outputs);

// Whether the operation reduces its inputs to one number. It can be recorded in parts, which have
// their kind as a further attribute.
bool reduces_list(OpId op);
enum class ReductionPart : std::int64_t {
  Whole,    // all inputs are elements of the list
  Element,  // the input is one element; the result is to be joined
  Join,     // the inputs are results of elements or joins
  Last,     // the same, and the result is that of the whole
};
// So many results are joined at once.
inline constexpr std::size_t kJoinedAtOnce = 16;

}  // namespace volta::graph
