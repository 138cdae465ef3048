// How cross_entropy and nll_loss are recorded: attributes, inputs, and where the classes lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/op.h"
#include "volta/losses.h"
#include "volta/shape.h"

namespace volta::graph {

// Inputs: logits or log-probabilities, target, then those there are of weight and smoothing, and
// for labels the one that is ignored. Results: the loss; of cross_entropy the largest logits and
// the logs of sums; of labels, each row's as it was checked, -1 where it is ignored, and the total.
// The gradient knows labels by that result alone: a wrong one is found even if nobody has the loss.
struct ClassLoss {
  static constexpr std::int64_t kWeighted = 1, kSmoothed = 2, kProbabilities = 4;

  Reduction reduction;
  bool weighted, smoothed, probabilities;
  int weight, smoothing, ignored;  // inputs
  int label, total;                // results

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

  // Whether the mean is over the labels that are not ignored, or their weights, which are added up,
  // rather than over rows.
  bool has_total() const { return reduction == Reduction::mean && !probabilities; }
};

// [n, classes, ...] or [classes].
struct ClassAxis {
  int axis;
  std::int64_t classes;
  Shape rows;      // without the classes
  Shape kept;      // with 1 in their place
  Shape by_class;  // 1 but for the classes

  explicit ClassAxis(const Shape& shape) : axis(shape.rank() == 1 ? 0 : 1), classes(shape[axis]) {
    std::vector<std::int64_t> without, one(shape.begin(), shape.end()),
        only(static_cast<std::size_t>(shape.rank()), 1);
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) without.push_back(shape[i]);
    }
    one[static_cast<std::size_t>(axis)] = 1;
    only[static_cast<std::size_t>(axis)] = classes;
    rows = Shape(without);
    kept = Shape(one);
    by_class = Shape(only);
  }
};

}  // namespace volta::graph
