// Losses: checks and recording. Elementwise losses are formulas (elementwise.def) followed by a
// reduction; losses over classes are nodes of their own.
#include <fmt/format.h>

#include "graph/attributes/class_loss.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/losses.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::ClassLoss;
using graph::OpId;

namespace {

const char* name_of_row(OpId op) { return graph::op_info(op).name; }

void require_reduction(const char* op, Reduction reduction) {
  if (reduction == Reduction::batchmean) {
    throw ArgumentError(fmt::format("{}: batchmean is a reduction of kl_div and gaussian_kl", op));
  }
}

// Input and target of a loss (some losses name them differently), on one device and in the input's
// dtype; under Autocast, in f32.
struct Pair {
  Tensor inputs[2];

  Pair(OpId row, const char* op, const Tensor& first, const Tensor& second, const char* first_name,
       const char* second_name, SourceLocation place) {
    graph::require_floating(op, first);
    if (!second.defined()) graph::throw_undefined(op, fmt::format("the {}", second_name).c_str());
    if (first.shape() != second.shape()) {
      throw ShapeError(fmt::format("{}: {} {} and {} {} differ in shape", op, first_name,
                                   to_string(first.shape()), second_name,
                                   to_string(second.shape())));
    }
    inputs[0] = first;
    inputs[1] = second;
    if (const auto wanted = graph::autocast_dtype(row, {&first, &second})) {
      for (Tensor& input : inputs) input = graph::autocast(input, *wanted, place);
    }
    if (inputs[1].dtype() != inputs[0].dtype()) inputs[1] = inputs[1].to(inputs[0].dtype(), place);
    graph::agree_on_device(op, inputs, place);
  }
  Pair(OpId row, const Tensor& input, const Tensor& target, SourceLocation place)
      : Pair(row, name_of_row(row), input, target, "input", "target", place) {}
};

Tensor reduced(const Tensor& losses, Reduction reduction, SourceLocation place) {
  switch (reduction) {
    case Reduction::none:
      return losses;
    case Reduction::mean:
      return mean(losses, {}, false, place);
    case Reduction::sum:
      break;
    case Reduction::batchmean:
      if (losses.rank() == 0) break;
      return div({sum(losses, {}, false, place), place},
                 {static_cast<double>(losses.shape()[0]), place});
  }
  return sum(losses, {}, false, place);
}

// Applies the formula of a loss to the pair and further arguments, then reduces the result.
Tensor elementwise(OpId row, const Pair& pair, std::initializer_list<Operand> more,
                   Reduction reduction, SourceLocation place) {
  std::vector<Operand> arguments{{pair.inputs[0], place}, {pair.inputs[1], place}};
  arguments.insert(arguments.end(), more);
  return reduced(graph::apply_formula(row, arguments), reduction, place);
}

void require_weight(const char* op, const Tensor& weight, const char* which, DType dtype) {
  if (weight.dtype() != dtype && !(graph::is_half(dtype) && weight.dtype() == DType::f32)) {
    throw DTypeError(fmt::format("{}: input is {}, {} is {}", op, name_of(dtype), which,
                                 name_of(weight.dtype())));
  }
  if (weight.requires_grad() && grad_enabled()) {
    throw ArgumentError(fmt::format("{}: {} requires a gradient, but none flows to it", op, which));
  }
}

// A weight per element; 1 if none is given.
struct ElementWeight {
  Tensor tensor;
  SourceLocation place;
  Operand operand() const { return tensor.defined() ? Operand(tensor, place) : Operand(1, place); }

  ElementWeight(OpId row, const Tensor& weight, const char* which, const Tensor& given,
                const Pair& pair, SourceLocation at)
      : place(at) {
    if (!weight.defined()) return;
    const char* op = name_of_row(row);
    const Shape &to = pair.inputs[0].shape(), &from = weight.shape();
    bool expands = from.rank() <= to.rank();
    for (int i = 0; expands && i < from.rank(); ++i) {
      const std::int64_t size = from[i];
      expands = size == 1 || size == to[to.rank() - from.rank() + i];
    }
    if (!expands) {
      throw ShapeError(fmt::format("{}: {} {} does not expand to {}", op, which, to_string(from),
                                   to_string(to)));
    }
    require_weight(op, weight, which, given.dtype());
    tensor = weight.to(pair.inputs[0].dtype(), place);
  }
};

// ---- Losses over classes.

bool is_labels(DType dtype) { return is_integral(dtype) && dtype != DType::boolean; }

struct ClassOptions {
  Reduction reduction;
  const Tensor& weight;
  std::int64_t ignore_index;
  double smoothing = 0;
  bool probabilities = false;
};

Tensor by_class(OpId row, const Tensor& x, const Tensor& target, const ClassOptions& options,
                SourceLocation place) {
  const char* op = name_of_row(row);
  if (const auto wanted = graph::autocast_dtype(row, {&x, &target, &options.weight})) {
    const auto cast = [&](const Tensor& tensor) { return graph::autocast(tensor, *wanted, place); };
    const Tensor weight = cast(options.weight);
    return by_class(
        row, cast(x), cast(target),
        {options.reduction, weight, options.ignore_index, options.smoothing, options.probabilities},
        place);
  }
  const graph::ClassAxis at(x.shape());
  std::vector<Tensor> inputs{
      x, options.probabilities ? target.to(x.dtype(), place) : target.to(DType::i64, place)};
  std::int64_t which = options.probabilities ? ClassLoss::kProbabilities : 0;
  if (options.weight.defined()) {
    which |= ClassLoss::kWeighted;
    inputs.push_back(options.weight);
  }
  graph::agree_on_device(op, inputs, place);
  const Device device = inputs[0].device();
  const DType inner = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (options.smoothing > 0) {
    which |= ClassLoss::kSmoothed;
    inputs.push_back(graph::number(options.smoothing, inner, device));
  }
  if (!options.probabilities) inputs.push_back(graph::argument(options.ignore_index, device));
  const std::int64_t attrs[] = {static_cast<std::int64_t>(options.reduction), which};
  std::vector<Shape> shapes{options.reduction == Reduction::none ? at.rows : Shape()};
  std::vector<DType> dtypes{x.dtype()};
  if (row == OpId::cross_entropy) {
    shapes.insert(shapes.end(), 2, at.rows);
    dtypes.insert(dtypes.end(), 2, inner);
  }
  const ClassLoss spec(row, attrs);
  if (!spec.probabilities) {
    shapes.push_back(at.rows);
    dtypes.push_back(DType::i64);
  }
  if (spec.has_total()) {
    shapes.emplace_back();
    dtypes.push_back(inner);
  }
  return graph::apply_multi(row, inputs, attrs, shapes, dtypes, place)[0];
}

void require_classes(const char* op, const Tensor& x, const char* what) {
  if (x.rank() == 0) throw ShapeError(fmt::format("{}: {} [] have no axis of classes", op, what));
  if (x.shape()[x.rank() == 1 ? 0 : 1] == 0) throw ShapeError(fmt::format("{}: no classes", op));
}

void require_class_weight(const char* op, const Tensor& weight, const Tensor& x) {
  if (!weight.defined()) return;
  const Shape classes{graph::ClassAxis(x.shape()).classes};
  if (weight.shape() != classes) {
    throw ShapeError(
        fmt::format("{}: weight {} is not {}", op, to_string(weight.shape()), to_string(classes)));
  }
  require_weight(op, weight, "weight", x.dtype());
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, LossOptions options,
                SourceLocation place) {
  const Pair pair(OpId::mse_loss, input, target, place);
  require_reduction("mse_loss", options.reduction);
  const Tensor& x = pair.inputs[0];
  return apply(OpId::mse_loss, {x, pair.inputs[1]}, {static_cast<std::int64_t>(options.reduction)},
               options.reduction == Reduction::none ? x.shape() : Shape(), x.dtype(), place);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, LossOptions options,
               SourceLocation place) {
  const Pair pair(OpId::l1_loss, input, target, place);
  require_reduction("l1_loss", options.reduction);
  return elementwise(OpId::l1_loss, pair, {}, options.reduction, place);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, SmoothL1LossOptions options,
                      SourceLocation place) {
  const Pair pair(OpId::smooth_l1_loss, input, target, place);
  require_reduction("smooth_l1_loss", options.reduction);
  if (!(options.beta >= 0)) {
    throw ArgumentError(fmt::format("smooth_l1_loss: beta {} is negative", options.beta));
  }
  if (options.beta == 0) return elementwise(OpId::l1_loss, pair, {}, options.reduction, place);
  return elementwise(OpId::smooth_l1_loss, pair, {{options.beta, place}}, options.reduction, place);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, HuberLossOptions options,
                  SourceLocation place) {
  const Pair pair(OpId::huber_loss, input, target, place);
  require_reduction("huber_loss", options.reduction);
  if (!(options.delta > 0)) {
    throw ArgumentError(fmt::format("huber_loss: delta {} is not positive", options.delta));
  }
  return elementwise(OpId::huber_loss, pair, {{options.delta, place}}, options.reduction, place);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyOptions& options, SourceLocation place) {
  constexpr OpId row = OpId::binary_cross_entropy;
  const Pair pair(row, input, target, place);
  require_reduction(name_of_row(row), options.reduction);
  const ElementWeight weight(row, options.weight, "weight", input, pair, place);
  return elementwise(row, pair, {weight.operand()}, options.reduction, place);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options,
                                        SourceLocation place) {
  constexpr OpId row = OpId::binary_cross_entropy_with_logits;
  const Pair pair(row, input, target, place);
  require_reduction(name_of_row(row), options.reduction);
  const ElementWeight weight(row, options.weight, "weight", input, pair, place);
  const ElementWeight positive(row, options.pos_weight, "pos_weight", input, pair, place);
  return elementwise(row, pair, {weight.operand(), positive.operand()}, options.reduction, place);
}

Tensor kl_div(const Tensor& input, const Tensor& target, KLDivOptions options,
              SourceLocation place) {
  const Pair pair(OpId::kl_div, input, target, place);
  return elementwise(options.log_target ? OpId::kl_div_log : OpId::kl_div, pair, {},
                     options.reduction, place);
}

Tensor gaussian_kl(const Tensor& mu, const Tensor& logvar, LossOptions options,
                   SourceLocation place) {
  const Pair pair(OpId::gaussian_kl, "gaussian_kl", mu, logvar, "mu", "logvar", place);
  return elementwise(OpId::gaussian_kl, pair, {}, options.reduction, place);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                const NLLLossOptions& options, SourceLocation place) {
  const Tensor& x = log_probabilities;
  graph::require_floating("nll_loss", x);
  graph::require_defined("nll_loss", labels, "labels");
  require_classes("nll_loss", x, "log-probabilities");
  const Shape rows = graph::ClassAxis(x.shape()).rows;
  if (labels.shape() != rows) {
    throw ShapeError(fmt::format("nll_loss: log-probabilities {} need labels {}, got {}",
                                 to_string(x.shape()), to_string(rows), to_string(labels.shape())));
  }
  if (!is_labels(labels.dtype())) graph::throw_dtype("nll_loss", labels.dtype(), "integer labels");
  require_reduction("nll_loss", options.reduction);
  require_class_weight("nll_loss", options.weight, x);
  return by_class(OpId::nll_loss, x, labels,
                  {options.reduction, options.weight, options.ignore_index}, place);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                     SourceLocation place) {
  graph::require_floating("cross_entropy", logits);
  graph::require_defined("cross_entropy", target, "labels");
  require_classes("cross_entropy", logits, "logits");
  const bool probabilities = target.shape() == logits.shape();
  const Shape rows = graph::ClassAxis(logits.shape()).rows;
  if (!probabilities && target.shape() != rows) {
    throw ShapeError(
        fmt::format("cross_entropy: logits {} need labels {} or probabilities {}, got {}",
                    to_string(logits.shape()), to_string(rows), to_string(logits.shape()),
                    to_string(target.shape())));
  }
  if (probabilities && !is_floating(target.dtype()))
    graph::throw_dtype("cross_entropy", target.dtype(), "floating-point probabilities");
  if (!probabilities && !is_labels(target.dtype()))
    graph::throw_dtype("cross_entropy", target.dtype(), "integer labels");
  require_reduction("cross_entropy", options.reduction);
  require_class_weight("cross_entropy", options.weight, logits);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw ArgumentError(
        fmt::format("cross_entropy: label_smoothing {} is not in [0, 1]", options.label_smoothing));
  }
  // A negative ignore_index, such as the default, matches no class.
  if (probabilities && options.ignore_index >= 0) {
    throw ArgumentError("cross_entropy: ignore_index is of labels, the target is probabilities");
  }
  return by_class(OpId::cross_entropy, logits, target,
                  {options.reduction, options.weight, options.ignore_index, options.label_smoothing,
                   probabilities},
                  place);
}

}  // namespace volta
