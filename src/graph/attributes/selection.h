// Selections: an index checked against a shape, what reading it records, where writing it goes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "graph/node.h"
#include "volta/indexing.h"

namespace volta::graph {

class TapeCollector;

// What is picked of an axis of the source (of several: a mask), or a new axis.
struct Pick {
  enum class Kind : std::uint8_t { at, range, fresh, integers, mask };
  Kind kind;
  std::int64_t start = 0, step = 1, size = 1;  // at: start; range: all
  Tensor indices = {};                         // integers, mask
};
using Picks = std::vector<Pick>;

// Every axis of the shape is picked once. Throws where the entries do not fit it.
Picks parse_picks(const char* op, const Shape& shape, std::span<const Index> entries);
bool has_tensors(const Picks& picks);
// The shape of what numbers, ranges and new axes pick; axes that tensors pick from stay whole.
Shape view_shape(const Shape& source, const Picks& picks);
Tensor view_of(const Tensor& source, const Picks& picks, Place place);
// A selection from a selection as one from the source; nothing where that is no selection.
std::optional<Picks> compose(const Shape& source, const Picks& outer, const Picks& inner);

// Integer tensors that pick from some axes (`bits`) of a shape, as PyTorch places their axes.
struct IndexLayout {
  IndexLayout(const Shape& source, std::int64_t bits, std::span<const Shape> indices);

  std::vector<std::int64_t> indexed, kept;  // axes
  Shape at;                                 // of the indices, broadcast
  std::int64_t rows = 1, columns = 1;       // of the source: over indexed axes, over kept ones
  std::int64_t count;                       // of indices
  Shape result;
  // Permutations: of the source to [indexed..., kept...], and of [at..., kept...] to the result.
  std::vector<std::int64_t> rows_first, to_result;
  // [at..., kept...], and [indexed..., kept...] of the source.
  Shape by_index, by_row;
};

// A view with the integer tensors that are left to pick from it; masks have become positions.
struct IndexedView {
  Tensor view;
  std::vector<Tensor> indices;
  std::int64_t bits = 0;
};
IndexedView indexed_view(const char* op, const Tensor& source, const Picks& picks, Place place);
Tensor index_with(const IndexedView& from, Place place);

// The only tensor that picks, if it is a mask: its first axis in the view, else -1.
int lone_mask_axis(const Picks& picks, const Pick*& mask);

Tensor read_picks(const Tensor& source, const Picks& picks, Place place);

// ---- Masks (ops_gather.cpp).
std::int64_t count_true(const Tensor& mask, Place place);  // evaluates
// Of the first `size` true elements of mask [n]: where they stand; n for those there are not.
Tensor true_positions(const Tensor& mask, std::int64_t size, Place place);
// Rows of x [n, d] where mask [n] is true, then rows of `fill`: [size, d].
Tensor rows_at_true(const Tensor& x, const Tensor& mask, std::int64_t size, Scalar fill,
                    Place place);
// The inverse: rows [k, d] where mask [n] is true, in order, zeros elsewhere.
Tensor rows_to_true(const Tensor& rows, const Tensor& mask, Place place);

// Where a selection writes to.
struct Target {
  const char* op;
  Tensor source;
  std::shared_ptr<const Target> outer;  // what `source` was itself selected from, to be written to
  Picks picks;
  Place place;
};

// A selection that has not been read: the source as it was when it was selected.
struct PendingRead {
  std::mutex lock;
  std::shared_ptr<const Target> target;
  Held node;
  TapeRef tape;
  bool history = false;        // gradients flow
  bool requires_grad = false;  // the source was a leaf that wants a gradient
  TapeCollector* collector = nullptr;
  std::uint32_t epoch = 0;
};

struct SelectionAccess {
  static Selection make(std::shared_ptr<const Target> target);
};

}  // namespace volta::graph
