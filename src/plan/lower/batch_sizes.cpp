// Collects the sizes of a batch, compares those of several batches, and finds relations between
// them.
#include "plan/lower/batch_sizes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace volta::plan {

using graph::Batch;
using graph::Node;
using graph::NodeState;

namespace {

bool is_constant(const Node& node) {
  return node.state.load(std::memory_order_relaxed) == NodeState::Constant;
}

const Node& node_of(const graph::Leaf& leaf) { return *leaf.node; }
const Node& node_of(const Node* leaf) { return *leaf; }

// Calls `sizes` with the sizes of every leaf, then of every node: its attributes, its shape, and
// the shapes of its inputs that are numbers.
template <class Leaves, class Nodes, class Begin, class Sizes>
void visit_sizes(const Leaves& leaves, const Nodes& nodes, Begin begin, Sizes sizes) {
  for (const auto& leaf : leaves) {
    begin();
    sizes(node_of(leaf).shape.sizes());
  }
  for (const Node* node : nodes) {
    begin();
    sizes(node->attr_span());
    sizes(node->shape.sizes());
    for (const Node* input : node->input_span()) {
      if (is_constant(*input)) sizes(input->shape.sizes());
    }
  }
}

template <class Leaves, class Nodes>
std::vector<std::int64_t> all_sizes(const Leaves& leaves, const Nodes& nodes) {
  std::vector<std::int64_t> all;
  all.reserve(nodes.size() * 6 + leaves.size() * 2);
  visit_sizes(
      leaves, nodes, [] {},
      [&](std::span<const std::int64_t> some) { all.insert(all.end(), some.begin(), some.end()); });
  return all;
}

}  // namespace

std::vector<std::int64_t> sizes_of(const Batch& batch) {
  return all_sizes(batch.leaves, batch.nodes);
}

graph::Hash structure_of(const Batch& batch, const std::vector<bool>& donatable) {
  graph::Hash hash;
  for (std::size_t i = 0; i < batch.leaves.size(); ++i) {
    const Node& leaf = *batch.leaves[i].node;
    hash.mix(static_cast<std::uint64_t>(leaf.dtype) |
             static_cast<std::uint64_t>(leaf.shape.rank()) << 8 |
             static_cast<std::uint64_t>(donatable[i]) << 16);
  }
  for (const Node* node : batch.nodes) {
    hash.mix(static_cast<std::uint64_t>(node->op) | static_cast<std::uint64_t>(node->dtype) << 16 |
             static_cast<std::uint64_t>(node->attrs_count) << 24 |
             static_cast<std::uint64_t>(node->shape.rank()) << 32 |
             static_cast<std::uint64_t>(node->live) << 40);
    hash.mix(node->epoch | static_cast<std::uint64_t>(node->inputs_count) << 32);
    for (const Node* input : node->input_span()) {
      if (is_constant(*input)) {
        const bool literal = graph::is_key_literal(input->value);
        hash.mix(1 | static_cast<std::uint64_t>(literal) << 2 |
                 static_cast<std::uint64_t>(input->dtype) << 8 |
                 static_cast<std::uint64_t>(input->shape.rank()) << 16);
        if (literal) hash.mix(std::bit_cast<std::uint64_t>(input->value));
      } else if (const std::uint32_t leaf = batch.find_leaf(input); leaf != Batch::kNoLeaf) {
        hash.mix(2 | std::uint64_t{leaf} << 8);
      } else {
        hash.mix(3 | std::uint64_t{input->index} << 8);
      }
    }
  }
  for (const graph::JournalEntry& entry : batch.journal)
    hash.mix(std::uint64_t{entry.assigned->index} << 32 | entry.leaf);
  return hash;
}

SizePattern SizePattern::of(std::span<const std::vector<std::int64_t>> batches) {
  // Sizes of 0 and 1 have special meanings, and numbers beyond kMost are not sizes.
  constexpr std::int64_t kLeast = 2, kMost = std::int64_t{1} << 40;
  constexpr std::int64_t kNear = 4;
  const std::vector<std::int64_t>& planned = batches.back();
  SizePattern pattern;
  pattern.places_.resize(planned.size());
  const auto varies = [&](std::size_t at) {
    return std::any_of(batches.begin(), batches.end(),
                       [&](const auto& batch) { return batch[at] != planned[at]; });
  };
  using Numbers = std::vector<std::int64_t>;  // one size in each of the batches
  const auto numbers_at = [&](std::size_t at) {
    Numbers numbers;
    for (const auto& batch : batches) numbers.push_back(batch[at]);
    return numbers;
  };
  std::map<Numbers, Place> known;
  std::vector<std::pair<Numbers, std::size_t>> varying;  // with a position at which the sizes occur
  for (std::size_t at = 0; at < planned.size(); ++at) {
    pattern.places_[at].offset = planned[at];
    if (!varies(at)) continue;
    Numbers numbers = numbers_at(at);
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    if (*least < kLeast || *most > kMost) continue;
    if (known.try_emplace(numbers).second) varying.emplace_back(std::move(numbers), at);
  }
  // The smallest come first, so that others can be multiples of them.
  std::sort(varying.begin(), varying.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.back(), a.second) < std::pair(b.first.back(), b.second);
  });
  std::vector<Numbers> symbols;
  const auto all = [&](auto holds) {
    for (std::size_t b = 0; b < batches.size(); ++b) {
      if (!holds(b)) return false;
    }
    return true;
  };
  std::vector<std::pair<Numbers, Place>> beside;  // sizes that are off a symbol by a few
  const auto follows = [&](const Numbers& x) -> std::optional<Place> {
    for (std::size_t s = 0; s < symbols.size(); ++s) {
      const Numbers& a = symbols[s];
      const auto symbol = static_cast<std::int32_t>(s);
      const std::int64_t factor = x[0] / a[0], offset = x[0] - a[0];
      if (all([&](std::size_t b) { return x[b] == factor * a[b]; }))
        return Place{symbol, -1, factor, 0};
      if (std::abs(offset) <= kNear && all([&](std::size_t b) { return x[b] == a[b] + offset; }))
        return Place{symbol, -1, 1, offset};
      for (std::size_t t = 0; t <= s; ++t) {
        const Numbers& c = symbols[t];
        const std::int64_t of_both = x[0] / (a[0] * c[0]);
        if (of_both > 0 && all([&](std::size_t b) { return x[b] == of_both * a[b] * c[b]; }))
          return Place{symbol, static_cast<std::int32_t>(t), of_both, 0};
      }
    }
    for (const auto& [a, place] : beside) {
      const std::int64_t factor = x[0] / a[0];
      if (all([&](std::size_t b) { return x[b] == factor * a[b]; }))
        return Place{place.symbol, -1, factor, factor * place.offset};
    }
    return std::nullopt;
  };
  for (const auto& [numbers, at] : varying) {
    Place& place = known[numbers];
    if (const auto found = follows(numbers)) {
      place = *found;
      if (place.second < 0 && place.factor == 1 && place.offset != 0)
        beside.emplace_back(numbers, place);
      continue;
    }
    place = {static_cast<std::int32_t>(symbols.size()), -1, 1, 0};
    symbols.push_back(numbers);
    pattern.defined_.push_back(at);
  }
  pattern.symbols_ = symbols.size();
  if (symbols.empty()) return pattern;
  for (std::size_t at = 0; at < planned.size(); ++at) {
    if (!varies(at)) continue;
    if (const auto found = known.find(numbers_at(at)); found != known.end())
      pattern.places_[at] = found->second;
  }
  return pattern;
}

bool SizePattern::symbols_of(std::span<const std::int64_t> sizes,
                             std::vector<std::int64_t>& symbols) const {
  if (sizes.size() != places_.size()) return false;
  symbols.clear();
  for (const std::size_t at : defined_) symbols.push_back(sizes[at]);
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    const Place& place = places_[at];
    std::int64_t number = place.offset;
    if (place.symbol >= 0) {
      std::int64_t product = place.factor * symbols[static_cast<std::size_t>(place.symbol)];
      if (place.second >= 0) product *= symbols[static_cast<std::size_t>(place.second)];
      number += product;
    }
    if (number != sizes[at]) return false;
  }
  return true;
}

std::vector<Extent> SizePattern::extents(std::span<const std::int64_t> sizes,
                                         OpenSizes& open) const {
  std::vector<Extent> symbols, result;
  for (const std::size_t at : defined_) symbols.push_back(open.symbol(sizes[at]));
  result.reserve(places_.size());
  for (const Place& place : places_) {
    Extent extent = place.offset;
    if (place.symbol >= 0) {
      Extent product = place.factor * symbols[static_cast<std::size_t>(place.symbol)];
      if (place.second >= 0) product *= symbols[static_cast<std::size_t>(place.second)];
      extent += product;
    }
    result.push_back(extent);
  }
  return result;
}

BatchSizes::BatchSizes(const BatchView& view, std::vector<Extent> extents)
    : view_(view), extents_(std::move(extents)) {
  if (extents_.empty()) {
    const std::vector<std::int64_t> numbers = all_sizes(view.leaves(), view.nodes());
    extents_.assign(numbers.begin(), numbers.end());
  }
  first_.reserve(view.leaves().size() + view.nodes().size());
  std::size_t next = 0;
  visit_sizes(
      view.leaves(), view.nodes(), [&] { first_.push_back(next); },
      [&](std::span<const std::int64_t> some) { next += some.size(); });
}

std::size_t BatchSizes::first_of(const Node& node) const {
  return first_[view_.leaves().size() + view_.number(node)];
}

Shape BatchSizes::shape_at(std::size_t first, std::size_t rank) const {
  return Shape(std::span(extents_).subspan(first, rank));
}

Shape BatchSizes::shape(const Node& node) const {
  if (const std::uint32_t leaf = view_.leaf_number(node); leaf != BatchView::kNone)
    return shape_at(first_[leaf], node.shape.rank());
  return shape_at(first_of(node) + node.attrs_count, node.shape.rank());
}

std::span<const Extent> BatchSizes::attrs(const Node& node) const {
  return std::span(extents_).subspan(first_of(node), node.attrs_count);
}

Shape BatchSizes::constant_shape(const Node& node, std::size_t input) const {
  std::size_t first = first_of(node) + node.attrs_count + node.shape.sizes().size();
  for (std::size_t i = 0; i < input; ++i) {
    if (is_constant(*node.inputs[i])) first += node.inputs[i]->shape.sizes().size();
  }
  return shape_at(first, node.inputs[input]->shape.sizes().size());
}

}  // namespace volta::plan
