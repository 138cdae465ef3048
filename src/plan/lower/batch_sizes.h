// The sizes of a batch: the extents and attributes of its nodes. Batches of one structure (the same
// operations on the same operands) differ only in their sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/record/recorder.h"
#include "plan/lower/batch_view.h"
#include "plan/lower/extent.h"
#include "plan/lower/shape.h"

namespace volta::plan {

// All sizes of a batch, in an order that batches of one structure share.
std::vector<std::int64_t> sizes_of(const graph::Batch& batch);
// Hashes everything that identifies a batch except its sizes. If donatable[i], leaf i may be
// overwritten.
graph::Hash structure_of(const graph::Batch& batch, const std::vector<bool>& donatable);

// The sizes that several batches of one structure have in common, and how the other sizes follow
// from a few open ones. This is a guess from the batches seen so far; symbols_of() checks it for
// another batch.
class VOLTA_BACKEND_API SizePattern {
 public:
  // The last batch is the one to be planned.
  static SizePattern of(std::span<const std::vector<std::int64_t>> batches);

  bool is_open() const { return symbols_ > 0; }
  std::size_t symbols() const { return symbols_; }
  // Returns the values of the open sizes in a batch; nothing if the batch does not follow the
  // pattern.
  bool symbols_of(std::span<const std::int64_t> sizes, std::vector<std::int64_t>& symbols) const;
  // Returns the sizes of the planned batch as extents of the current OpenSizes.
  std::vector<Extent> extents(std::span<const std::int64_t> sizes, OpenSizes& open) const;
  std::size_t bytes() const { return places_.size() * sizeof(Place); }

 private:
  // A size as factor * symbol [* second symbol] + offset, or the number `offset` without a symbol.
  struct Place {
    std::int32_t symbol = -1, second = -1;
    std::int64_t factor = 0, offset = 0;
  };
  std::vector<Place> places_;
  std::vector<std::size_t> defined_;  // for each symbol, a position of a size that equals it
  std::size_t symbols_ = 0;
};

// The sizes of a view by node, for lowering.
class BatchSizes {
 public:
  // Without extents, every size is a plain number.
  explicit BatchSizes(const BatchView& view, std::vector<Extent> extents = {});

  // The sizes of a node or leaf of the view.
  Shape shape(const graph::Node& node) const;
  std::span<const Extent> attrs(const graph::Node& node) const;
  // The shape of an input of a node that is a number.
  Shape constant_shape(const graph::Node& node, std::size_t input) const;

 private:
  // The shape of that rank whose sizes begin at `first`.
  Shape shape_at(std::size_t first, std::size_t rank) const;
  // Where the sizes of a node of the view begin.
  std::size_t first_of(const graph::Node& node) const;

  const BatchView& view_;
  std::vector<Extent> extents_;
  std::vector<std::size_t> first_;  // for each leaf, then for each node
};

}  // namespace volta::plan
