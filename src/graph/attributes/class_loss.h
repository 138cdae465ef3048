// The attributes and inputs of cross_entropy and nll_loss, and the position of their class axis.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/record/op.h"
#include "volta/losses.h"
#include "volta/shape.h"

namespace volta::graph {

// Inputs: logits or log-probabilities, the target, the weight and smoothing if given, and, for
// labels, the ignored label. Results: the loss; for cross_entropy the largest logits and the logs
// of the sums; for labels, the checked label of each row (-1 if ignored) and the total weight. The
// gradient uses only the checked labels, so that a wrong label is found even if the loss itself is
// not used.
struct ClassLoss {
  static constexpr std::int64_t kWeighted = 1, kSmoothed = 2, kProbabilities = 4;

  Reduction reduction;
  bool weighted, smoothed, probabilities;
  int weight, smoothing, ignored;  // positions of the inputs
  int label, total;                // positions of the results

  ClassLoss(OpId op, std::span<const std::int64_t> attrs)
      : reduction(static_cast<Reduction>(attrs[0])),
        weighted((attrs[1] & kWeighted) != 0),
        smoothed((attrs[1] & kSmoothed) != 0),
        probabilities((attrs[1] & kProbabilities) != 0),
        weight(2),
        smoothing(weight + weighted),
        ignored(smoothing + smoothed),
        label(op == OpId::cross_entropy ? 3 : 1),
        total(label + 1) {}

  // Whether the mean divides by the total weight of the labels that are not ignored (their number
  // if there are no weights) rather than by the number of rows.
  bool has_total() const { return reduction == Reduction::mean && !probabilities; }
};

// The class axis of a shape [n, classes, ...] or [classes]. The planner has shapes of its own.
template <class AnyShape>
struct ClassAxisOf {
  using Size = decltype(AnyShape()[0]);
  int axis;
  Size classes;
  AnyShape rows;      // the shape without the class axis
  AnyShape kept;      // the shape with 1 for the class axis
  AnyShape by_class;  // the shape with 1 for all other axes

  explicit ClassAxisOf(const AnyShape& shape)
      : axis(shape.rank() == 1 ? 0 : 1), classes(shape[axis]) {
    std::vector<Size> without, one(shape.begin(), shape.end()),
        only(static_cast<std::size_t>(shape.rank()), 1);
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) without.push_back(shape[i]);
    }
    one[static_cast<std::size_t>(axis)] = 1;
    only[static_cast<std::size_t>(axis)] = classes;
    rows = AnyShape(without);
    kept = AnyShape(one);
    by_class = AnyShape(only);
  }
};
using ClassAxis = ClassAxisOf<Shape>;

}  // namespace volta::graph
