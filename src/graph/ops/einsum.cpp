// Einstein summation. The equation is parsed, then operands are contracted pairwise from the left.
// Each contraction is one batched matrix product, with as few reshapes and transposes as possible,
// or one fused multiplication and sum.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace {

// A letter. The axes of an ellipsis are numbered from kEllipsis on, beginning with the last axis.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool has(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor with a distinct label for each axis.
struct Term {
  Tensor value;
  Labels labels;
  std::int64_t size(Label label) const {
    const auto at = std::find(labels.begin(), labels.end(), label);
    return value.shape()[static_cast<int>(at - labels.begin())];
  }
};

// ---- Parsing.

struct Subscripts {
  Labels labels;      // without the ellipsis
  int ellipsis = -1;  // position of the ellipsis among the labels; -1 if there is none
};

class Equation {
 public:
  explicit Equation(std::string_view text) : text_(text) {
    std::string_view rest = text;
    if (const auto arrow = rest.find("->"); arrow != std::string_view::npos) {
      has_output = true;
      output = parse(rest.substr(arrow + 2));
      rest = rest.substr(0, arrow);
    }
    for (;;) {
      const auto comma = rest.find(',');
      inputs.push_back(parse(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest = rest.substr(comma + 1);
    }
  }

  std::vector<Subscripts> inputs;
  Subscripts output;
  bool has_output = false;

 private:
  Subscripts parse(std::string_view part) const {
    Subscripts result;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const char c = part[i];
      if (c == ' ') continue;
      if (part.substr(i, 3) == "...") {
        if (result.ellipsis >= 0)
          throw ArgumentError(fmt::format("einsum: more than one ellipsis in '{}'", part));
        result.ellipsis = static_cast<int>(result.labels.size());
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        result.labels.push_back(c);
      } else {
        throw ArgumentError(fmt::format("einsum: '{}' in '{}' is no label", c, text_));
      }
    }
    return result;
  }

  std::string_view text_;
};

// The labels, with the ellipsis replaced by labels for its `axes` axes.
Labels with_ellipsis(const Subscripts& subscripts, int axes) {
  Labels labels = subscripts.labels;
  for (int i = 0; i < axes; ++i) labels.insert(labels.begin() + subscripts.ellipsis, kEllipsis + i);
  return labels;
}

std::string name_of_label(Label label) {
  return label < kEllipsis ? fmt::format("label '{}'", static_cast<char>(label))
                           : fmt::format("axis {} from the end of the ellipsis", label - kEllipsis);
}

// ---- Terms.

Tensor reordered(const Term& term, const Labels& order, SourceLocation place) {
  std::vector<std::int64_t> axes;
  for (const Label label : order) {
    const auto at = std::find(term.labels.begin(), term.labels.end(), label);
    axes.push_back(at - term.labels.begin());
  }
  return std::is_sorted(axes.begin(), axes.end()) ? term.value : term.value.permute(axes, place);
}

// Replaces axes that have the same label by their diagonal.
Term without_repeats(Term term, std::size_t operand, SourceLocation place) {
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    const auto again = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                 term.labels.end(), term.labels[i]);
    if (again == term.labels.end()) continue;
    const std::int64_t first = static_cast<std::int64_t>(i), second = again - term.labels.begin();
    const Shape shape = term.value.shape();
    const std::int64_t n = shape[static_cast<int>(first)];
    if (shape[static_cast<int>(second)] != n) {
      throw ShapeError(fmt::format("einsum: {} is {} and {} in operand {}",
                                   name_of_label(term.labels[i]), n,
                                   shape[static_cast<int>(second)], operand));
    }
    std::vector<std::int64_t> order(term.labels.size()), sizes;
    std::iota(order.begin(), order.end(), 0);
    order.erase(order.begin() + second);
    order.insert(order.begin() + first + 1, second);  // puts both axes next to each other
    for (const std::int64_t axis : order) sizes.push_back(shape[static_cast<int>(axis)]);
    sizes.erase(sizes.begin() + first);
    sizes[static_cast<std::size_t>(first)] = n * n;
    const Tensor flat = graph::reshape_to(
        std::is_sorted(order.begin(), order.end()) ? term.value : term.value.permute(order, place),
        Shape(sizes), place);
    term.value = flat.slice(first, 0, n * n, n + 1, place);
    term.labels.erase(again);
    --i;  // the label may occur a third time
  }
  return term;
}

// Sums over the labels that are not kept. Sums of integers are i64, as everywhere.
Term summed(Term term, const Labels& kept, SourceLocation place) {
  std::vector<std::int64_t> axes;
  Labels left;
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    if (has(kept, term.labels[i])) {
      left.push_back(term.labels[i]);
    } else {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (axes.empty()) return term;
  const DType dtype = is_floating(term.value.dtype()) ? term.value.dtype() : DType::i64;
  return {graph::sum_axes(term.value, axes, false, place).to(dtype, place), left};
}

// Drops axes of size 1 whose label is longer in the other operand.
void drop_broadcast(Term& term, const Term& other, SourceLocation place) {
  for (std::size_t i = term.labels.size(); i-- > 0;) {
    const Label label = term.labels[i];
    if (!has(other.labels, label) || term.size(label) != 1 || other.size(label) == 1) continue;
    term.value =
        graph::reshape_to(term.value, term.value.shape().removed(static_cast<int>(i)), place);
    term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::int64_t extent(const Term& term, const Labels& labels) {
  std::int64_t product = 1;
  for (const Label label : labels) product *= term.size(label);
  return product;
}

// An operand of a matrix product: [batch, rows, columns], or its transpose if `transposed`.
struct Side {
  Tensor matrices;
  bool transposed = false;
};
Side as_matrices(const Term& term, const Labels& batch, const Labels& rows, const Labels& columns,
                 SourceLocation place) {
  const auto joined = [](Labels first, const Labels& second, const Labels& third) {
    first.insert(first.end(), second.begin(), second.end());
    first.insert(first.end(), third.begin(), third.end());
    return first;
  };
  Side side;
  side.transposed =
      term.labels == joined(batch, columns, rows) && term.labels != joined(batch, rows, columns);
  const Labels &outer = side.transposed ? columns : rows, &inner = side.transposed ? rows : columns;
  const Tensor ordered = reordered(term, joined(batch, outer, inner), place);
  const std::int64_t o = extent(term, outer), i = extent(term, inner);
  const Shape shape = batch.empty() ? Shape{o, i} : Shape{extent(term, batch), o, i};
  side.matrices = graph::reshape_to(ordered, shape, place);
  return side;
}

// Converts f16 and bf16 to f32, so that products are rounded once, after the sum.
Tensor widened(const Tensor& x, SourceLocation place) {
  const bool half = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return half ? x.to(DType::f32, place) : x;
}

// The product of two terms, summed over the labels that are not kept.
Term contracted(Term a, Term b, const Labels& kept, SourceLocation place) {
  drop_broadcast(a, b, place);
  drop_broadcast(b, a, place);
  const auto sum_alone = [&](Term& term, const Term& other) {
    Labels wanted = kept;
    wanted.insert(wanted.end(), other.labels.begin(), other.labels.end());
    term = summed(std::move(term), wanted, place);
  };
  sum_alone(a, b);
  sum_alone(b, a);
  // A sum of integers may have made one of the terms i64.
  const DType dtype = promote(a.value.dtype(), b.value.dtype());
  for (Term* term : {&a, &b}) term->value = term->value.to(dtype, place);
  Labels batch, inner, only_a, only_b;
  for (const Label label : a.labels)
    (!has(b.labels, label) ? only_a : has(kept, label) ? batch : inner).push_back(label);
  for (const Label label : b.labels) {
    if (!has(a.labels, label)) only_b.push_back(label);
  }
  if (inner.empty() || (only_a.empty() && only_b.empty())) {
    // Multiplies elementwise; the sum runs in the same kernel.
    Labels all = a.labels;
    all.insert(all.end(), only_b.begin(), only_b.end());
    const auto spread = [&](const Term& term) {
      Labels present;
      std::vector<std::int64_t> sizes;
      for (const Label label : all) {
        if (has(term.labels, label)) present.push_back(label);
        sizes.push_back(has(term.labels, label) ? term.size(label) : 1);
      }
      return graph::reshape_to(reordered(term, present, place), Shape(sizes), place);
    };
    const Tensor x = widened(spread(a), place), y = widened(spread(b), place);
    const Tensor product = graph::binary(graph::OpId::mul, {x, place}, {y, place});
    Term result = summed({product, all}, kept, place);
    result.value = result.value.to(dtype, place);
    return result;
  }
  // The operand whose own labels come first in the output becomes the left one.
  const auto first_wanted = [&](const Labels& labels) {
    auto first = kept.end();
    for (const Label label : labels)
      first = std::min(first, std::find(kept.begin(), kept.end(), label));
    return first;
  };
  if (!only_b.empty() && !only_a.empty() && first_wanted(only_b) < first_wanted(only_a)) {
    std::swap(a, b);
    std::swap(only_a, only_b);
  }
  // Both operands use the same order of the inner labels, taken from one of them.
  const Side left = as_matrices(a, batch, only_a, inner, place);
  const Side right = as_matrices(b, batch, inner, only_b, place);
  const bool tf32 = graph::tf32_now();
  const Tensor product =
      graph::product(left.matrices, right.matrices, left.transposed, right.transposed, tf32, place);
  Term result{product, batch};
  std::vector<std::int64_t> sizes;
  for (const Label label : batch) sizes.push_back(a.size(label));
  for (const Label label : only_a) sizes.push_back(a.size(label));
  for (const Label label : only_b) sizes.push_back(b.size(label));
  result.labels.insert(result.labels.end(), only_a.begin(), only_a.end());
  result.labels.insert(result.labels.end(), only_b.begin(), only_b.end());
  result.value = graph::reshape_to(product, Shape(sizes), place);
  return result;
}

// The labels of the ellipsis, then the letters that occur once, sorted.
Labels implicit_output(const std::vector<Subscripts>& inputs, int ellipsis_axes) {
  std::map<Label, int> uses;
  for (const Subscripts& input : inputs) {
    for (const Label label : input.labels) ++uses[label];
  }
  Labels labels;
  for (int i = ellipsis_axes; i-- > 0;) labels.push_back(kEllipsis + i);
  for (const auto& [label, count] : uses) {
    if (count == 1) labels.push_back(label);
  }
  return labels;
}

void require_output(const Labels& output, const std::vector<Term>& terms) {
  for (std::size_t i = 0; i < output.size(); ++i) {
    const bool known = std::any_of(terms.begin(), terms.end(),
                                   [&](const Term& term) { return has(term.labels, output[i]); });
    if (!known) {
      throw ArgumentError(
          fmt::format("einsum: {} of the output is in no operand", name_of_label(output[i])));
    }
    if (std::count(output.begin(), output.end(), output[i]) > 1) {
      throw ArgumentError(
          fmt::format("einsum: {} is in the output twice", name_of_label(output[i])));
    }
  }
}

void require_sizes(const std::vector<Term>& terms) {
  std::map<Label, std::pair<std::int64_t, std::size_t>> sizes;  // size and operand of each label
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t k = 0; k < terms[i].labels.size(); ++k) {
      const std::int64_t size = terms[i].value.shape()[static_cast<int>(k)];
      if (size == 1) continue;
      const auto [known, fresh] = sizes.try_emplace(terms[i].labels[k], size, i);
      if (fresh || known->second.first == size) continue;
      throw ShapeError(fmt::format("einsum: {} is {} in operand {} and {} in operand {}",
                                   name_of_label(terms[i].labels[k]), known->second.first,
                                   known->second.second, size, i));
    }
  }
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands,
              SourceLocation place) {
  const Equation parsed(equation);
  if (parsed.inputs.size() != operands.size()) {
    throw ArgumentError(fmt::format("einsum: '{}' names {} operands, got {}", equation,
                                    parsed.inputs.size(), operands.size()));
  }
  for (const Tensor& operand : operands) graph::require_defined("einsum", operand, "an operand");
  std::vector<Tensor> values = operands;
  graph::agree_on_device("einsum", values, place);
  if (graph::in_autocast()) {
    std::vector<const Tensor*> given;
    for (const Tensor& value : values) given.push_back(&value);
    if (const auto wanted = graph::wanted_dtype(graph::AutocastRule::product, given)) {
      for (Tensor& value : values) value = graph::autocast(value, *wanted, place);
    }
  }
  DType dtype = values[0].dtype();
  for (const Tensor& value : values) dtype = promote(dtype, value.dtype());
  if (dtype == DType::boolean) graph::throw_dtype("einsum", dtype, "numbers");
  std::vector<Term> terms;
  int ellipsis_axes = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Subscripts& subscripts = parsed.inputs[i];
    const int named = static_cast<int>(subscripts.labels.size());
    const int axes = subscripts.ellipsis < 0 ? 0 : values[i].rank() - named;
    if (axes < 0 || named + axes != values[i].rank()) {
      throw ShapeError(fmt::format("einsum: operand {} is {}, '{}' names {} axes", i,
                                   to_string(values[i].shape()), equation, named));
    }
    ellipsis_axes = std::max(ellipsis_axes, axes);
    terms.push_back(
        without_repeats({values[i].to(dtype, place), with_ellipsis(subscripts, axes)}, i, place));
  }
  require_sizes(terms);
  Labels output;
  if (parsed.has_output) {
    output = with_ellipsis(parsed.output, parsed.output.ellipsis < 0 ? 0 : ellipsis_axes);
    require_output(output, terms);
  } else {
    output = implicit_output(parsed.inputs, ellipsis_axes);
  }
  // The labels that later operands or the output still need.
  const auto needed_after = [&](std::size_t number) {
    Labels kept = output;
    for (std::size_t i = number; i < terms.size(); ++i)
      kept.insert(kept.end(), terms[i].labels.begin(), terms[i].labels.end());
    return kept;
  };
  Term result = summed(terms[0], needed_after(1), place);
  for (std::size_t i = 1; i < terms.size(); ++i)
    result = contracted(std::move(result), terms[i], needed_after(i + 1), place);
  const Tensor ordered = reordered(result, output, place);
  const bool given =
      graph::TensorAccess::variable(ordered) == graph::TensorAccess::variable(operands[0]);
  // An operand is cloned, so that the result is a new variable.
  return given ? ordered.clone(place) : ordered;
}

Tensor bmm(const Tensor& a, const Tensor& b, SourceLocation place) {
  graph::require_defined("bmm", a, "the left operand");
  graph::require_defined("bmm", b, "the right operand");
  const bool fits = a.rank() == 3 && b.rank() == 3 && a.shape()[0] == b.shape()[0] &&
                    a.shape()[2] == b.shape()[1];
  if (!fits) {
    throw ShapeError(fmt::format("bmm: expected [b, n, k] x [b, k, m], got {} x {}",
                                 to_string(a.shape()), to_string(b.shape())));
  }
  if (promote(a.dtype(), b.dtype()) == DType::boolean)
    graph::throw_dtype("bmm", DType::boolean, "numbers");
  return matmul(a, b, place);
}

Tensor dot(const Tensor& a, const Tensor& b, SourceLocation place) {
  graph::require_defined("dot", a, "the left operand");
  graph::require_defined("dot", b, "the right operand");
  if (a.rank() != 1 || b.rank() != 1 || a.numel() != b.numel()) {
    throw ShapeError(fmt::format("dot: expected two vectors of one length, got {} and {}",
                                 to_string(a.shape()), to_string(b.shape())));
  }
  const DType dtype = promote(a.dtype(), b.dtype());
  if (dtype == DType::boolean) graph::throw_dtype("dot", dtype, "numbers");
  const Tensor x = widened(a, place), y = widened(b, place);
  return graph::binary(graph::OpId::mul, {x, place}, {y, place})
      .sum({}, false, place)
      .to(dtype, place);
}

Tensor outer(const Tensor& a, const Tensor& b, SourceLocation place) {
  graph::require_defined("outer", a, "the left operand");
  graph::require_defined("outer", b, "the right operand");
  if (a.rank() != 1 || b.rank() != 1) {
    throw ShapeError(fmt::format("outer: expected two vectors, got {} and {}", to_string(a.shape()),
                                 to_string(b.shape())));
  }
  return graph::binary(graph::OpId::mul, {graph::reshape_to(a, Shape{a.numel(), 1}, place), place},
                       {b, place});
}

}  // namespace volta
