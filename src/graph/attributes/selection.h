// Selections: an index checked against a shape, the operations that read it, and the target that a
// write goes to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "graph/record/node.h"
#include "volta/indexing.h"

namespace volta::graph {

class TapeCollector;

// The part of one source axis that is selected, or a new axis. A mask covers several axes.
struct Pick {
  enum class Kind : std::uint8_t { at, range, fresh, integers, mask };
  Kind kind;
  std::int64_t start = 0, step = 1, size = 1;  // kind `at` uses start; `range` uses all three
  Tensor indices = {};                         // of kinds `integers` and `mask`
};
using Picks = std::vector<Pick>;

// Returns picks that cover every axis of the shape once. Throws if the entries do not fit the
// shape.
Picks parse_picks(const char* op, const Shape& shape, std::span<const Index> entries);
bool has_tensors(const Picks& picks);
// The shape after applying numbers, ranges and new axes. Axes that tensors select from keep their
// size.
Shape view_shape(const Shape& source, const Picks& picks);
Tensor view_of(const Tensor& source, const Picks& picks, SourceLocation place);
// Combines a selection from a selection into one selection from the source. Empty if that is not
// possible.
std::optional<Picks> compose(const Shape& source, const Picks& outer, const Picks& inner);

// How integer tensors index the axes in `bits`. The axes of the result are placed as in PyTorch.
struct IndexLayout {
  IndexLayout(const Shape& source, std::int64_t bits, std::span<const Shape> indices);

  std::vector<std::int64_t> indexed, kept;  // axes of the source
  Shape at;                                 // common shape of the indices, after broadcasting
  std::int64_t rows = 1, columns = 1;       // elements of the indexed and of the kept axes
  std::int64_t count;                       // number of indices, after broadcasting
  Shape result;
  // Permutations from the source to [indexed..., kept...], and from [at..., kept...] to the result.
  std::vector<std::int64_t> rows_first, to_result;
  // The shapes [at..., kept...] and [indexed..., kept...].
  Shape by_index, by_row;
};

// A view, and the integer tensors that select from its axes in `bits`. Masks have been converted to
// positions.
struct IndexedView {
  Tensor view;
  std::vector<Tensor> indices;
  std::int64_t bits = 0;
};
IndexedView indexed_view(const char* op, const Tensor& source, const Picks& picks,
                         SourceLocation place);
Tensor index_with(const IndexedView& from, SourceLocation place);

// If the only tensor is a mask, its first axis in the view; otherwise -1.
int lone_mask_axis(const Picks& picks, const Pick*& mask);

Tensor read_picks(const Tensor& source, const Picks& picks, SourceLocation place);

// ---- Masks (graph/ops/gather.cpp).
std::int64_t count_true(const Tensor& mask, SourceLocation place);  // evaluates the mask
// The positions of the first `size` true elements of mask [n], filled up with n.
Tensor true_positions(const Tensor& mask, std::int64_t size, SourceLocation place);
// The rows of x [n, d] at which mask [n] is true, filled up with `fill` to [size, d].
Tensor rows_at_true(const Tensor& x, const Tensor& mask, std::int64_t size, Scalar fill,
                    SourceLocation place);
// The inverse of rows_at_true: rows [k, d] are placed in order where mask [n] is true; other rows
// are zero.
Tensor rows_to_true(const Tensor& rows, const Tensor& mask, SourceLocation place);

// The destination of writes to a selection.
struct Target {
  const char* op;
  Tensor source;
  std::shared_ptr<const Target> outer;  // of a source that is itself a selection
  Picks picks;
  SourceLocation place;
};

// A selection that was not read yet. It keeps the source's value and history at the time of the
// selection.
struct PendingRead {
  std::mutex lock;
  std::shared_ptr<const Target> target;
  Held node;
  TapeRef tape;
  bool history = false;        // history was being recorded
  bool requires_grad = false;  // the source was a leaf that requires a gradient
  TapeCollector* collector = nullptr;
  std::uint32_t epoch = 0;
};

// The one element that a selection by numbers and ranges picks from a computed value. It is read
// where it lies (read_element); nothing is recorded or planned for it.
struct PickedElement {
  Held source;
  std::int64_t number;  // of the element, counted in row-major order
};
// Empty if the variable is no unread selection of that kind.
std::optional<PickedElement> picked_element(Variable& variable);

struct SelectionAccess {
  static Selection make(std::shared_ptr<const Target> target);
};

}  // namespace volta::graph
