// Cutting: by the number of recent values that are read soon. Lists are taken apart.
#include "plan/stretches.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "plan/expand/lists.h"

namespace volta::plan {

using graph::Batch;
using graph::Node;
using graph::NodeState;
using graph::OpId;

namespace {

// A value crosses a place if it is one of the last kRecent nodes and one of the next kSoon nodes
// reads it. Values of far away are left out, because they tell of the whole program.
constexpr std::size_t kRecent = 8, kSoon = 32;
// So many nodes alike that do not read each other are a list.
constexpr std::size_t kLeastAlike = 8;
// Lists below this length are planned like other nodes.
constexpr std::size_t kLeastElements = 2;
// Views of views that a stretch computes again instead of reading them.
constexpr int kMostViews = 4;

bool is_constant(const Node& node) {
  return node.state.load(std::memory_order_relaxed) == NodeState::Constant;
}
bool is_argument(const Node& node) {
  return is_constant(node) && !graph::is_key_literal(node.value);
}
// Computing it again moves nothing.
bool is_free_view(OpId op) {
  return op == OpId::expand || op == OpId::reshape || op == OpId::permute;
}

// After which of the consecutive nodes [first, end) a stretch ends, in ascending order.
std::vector<std::size_t> cuts_of(const Batch& batch, StretchLength length, std::size_t first,
                                 std::size_t end) {
  const std::size_t count = end - first;
  std::vector<std::uint8_t> readers(count, 0);  // a bit per place behind the node
  std::vector<bool> may_cut(count, true);
  for (std::size_t n = first; n < end; ++n) {
    const Node& node = *batch.nodes[n];
    if (node.op == OpId::output && n > first) may_cut[n - first - 1] = false;
    for (const Node* input : node.input_span()) {
      if (input->index < first || input->index >= n || batch.nodes[input->index] != input) continue;
      const std::size_t from = input->index - first, to = n - first;
      for (std::size_t k = 0; k < kRecent && from + k < to; ++k) {
        if (to - (from + k) <= kSoon) readers[from] |= static_cast<std::uint8_t>(1U << k);
      }
      // A sum of halves is taken before they are rounded, if both are planned together.
      if (node.op == OpId::sum_to && size_of(node.dtype) == 2 && to - from <= kRecent) {
        for (std::size_t k = from; k < to; ++k) may_cut[k] = false;
      }
    }
  }
  std::vector<int> crossing(count, 0);
  for (std::size_t n = 0; n < count; ++n) {
    for (std::size_t k = 0; k < kRecent && n + k < count; ++k)
      crossing[n + k] += readers[n] >> k & 1;
  }
  crossing[count - 1] = 0;
  std::vector<std::size_t> cuts;
  for (std::size_t begin = 0; begin < count;) {
    std::size_t best = count - 1;
    bool is_found = false;
    for (std::size_t n = begin + length.least - 1;
         n < count && (n < begin + length.most || !is_found); ++n) {
      if (!may_cut[n] || (is_found && crossing[n] >= crossing[best])) continue;
      best = n;
      is_found = true;
    }
    cuts.push_back(first + best);
    begin = best + 1;
  }
  return cuts;
}

}  // namespace

// Builds the stretches of a batch one after the other.
class Cutter {
 public:
  Cutter(const Batch& batch, Stretches& result)
      : batch_(batch),
        result_(result),
        node_places_(batch.nodes.size()),
        leaf_places_(batch.leaves.size()) {
    std::uint32_t args = 0, sites = 0;
    for (const Node* node : batch.nodes) {
      first_arg_.push_back(args);
      first_site_.push_back(sites);
      for (const Node* input : node->input_span()) args += is_argument(*input) ? 1 : 0;
      sites += graph::checks_indices(node->op) ? 1 : 0;
    }
    // As when a whole batch is planned, a node counts if it is held or read by a node that counts.
    needed_.assign(batch.nodes.size(), false);
    for (std::size_t n = batch.nodes.size(); n-- > 0;) {
      const Node& node = *batch.nodes[n];
      if (node.live) needed_[n] = true;
      if (!needed_[n]) continue;
      for (const Node* input : node.input_span()) {
        if (!is_constant(*input) && is_node(*input)) needed_[input->index] = true;
      }
    }
    result.node_reader_.assign(batch.nodes.size(), 0);
    result.leaf_reader_.assign(batch.leaves.size(), 0);
  }

  void run() {
    std::size_t plain = 0;  // the first node that is in no stretch yet
    for (std::size_t n = 0; n < batch_.nodes.size();) {
      const auto flush = [&] {
        if (plain < n) add_cut(plain, n);
      };
      const std::size_t end = end_of_node(n), alike = end_of_alike(n);
      const auto update = graph::update_list(*batch_.nodes[n], end - n - 1);
      std::size_t next = end;
      if (update && update->count >= kLeastElements) {
        flush();
        add_update(n, *update);
        plain = next;
      } else if (graph::reduces_list(batch_.nodes[n]->op) &&
                 elements_of(n).size() >= kLeastElements) {
        flush();
        add_reduction(n);
        plain = next;
      } else if (alike - n >= kLeastAlike) {
        flush();
        for (std::size_t k = n, list = begins_.size(); k < alike; ++k)
          add_nodes(k, k + 1, static_cast<std::uint32_t>(list));
        plain = next = alike;
      }
      n = next;
    }
    if (plain < batch_.nodes.size()) add_cut(plain, batch_.nodes.size());
    make_spans();
  }

 private:
  // Where a node or leaf is in the latest stretch that has it: its number among the nodes or
  // leaves.
  struct Place {
    std::uint32_t stretch = ~0u, number = 0;
    std::uint32_t leaf_stretch = ~0u, leaf_number = 0;
  };
  struct Begin {  // of what the spans of a stretch refer to
    std::size_t nodes, leaves, args, sites;
  };

  // Behind the node and its outputs.
  std::size_t end_of_node(std::size_t n) const {
    std::size_t end = n + 1;
    while (end < batch_.nodes.size() && batch_.nodes[end]->op == OpId::output) ++end;
    return end;
  }
  // Behind the nodes of the same operation that do not read each other.
  std::size_t end_of_alike(std::size_t first) const {
    const Node& one = *batch_.nodes[first];
    std::size_t end = first + 1;
    const bool sums_halves = one.op == OpId::sum_to && size_of(one.dtype) == 2;
    if (one.inputs_count == 0 || sums_halves || end_of_node(first) != end) return end;
    for (; end < batch_.nodes.size(); ++end) {
      const Node& node = *batch_.nodes[end];
      if (node.op != one.op || node.dtype != one.dtype || node.inputs_count != one.inputs_count)
        break;
      const auto reads = node.input_span();
      if (std::any_of(reads.begin(), reads.end(),
                      [&](const Node* input) { return is_recorded(*input, first); }))
        break;
    }
    if (end < batch_.nodes.size() && batch_.nodes[end]->op == OpId::output) --end;
    return end;
  }
  bool is_recorded(const Node& node, std::size_t from = 0) const {
    return node.index >= from && node.index < batch_.nodes.size() &&
           batch_.nodes[node.index] == &node;
  }
  // Made nodes are numbered behind those of the batch; anything else is a leaf.
  bool is_node(const Node& node) const {
    if (node.index < batch_.nodes.size()) return batch_.nodes[node.index] == &node;
    const std::size_t made = node.index - batch_.nodes.size();
    return made < result_.made_.size() && &result_.made_[made] == &node;
  }
  std::vector<std::size_t> elements_of(std::size_t n) const {
    std::vector<std::size_t> elements;
    const Node& node = *batch_.nodes[n];
    for (std::size_t i = 0; i < node.inputs_count; ++i) {
      if (is_constant(*node.inputs[i])) return {};
      if (node.inputs[i]->shape.numel() > 0) elements.push_back(i);
    }
    return elements;
  }

  void begin(std::uint32_t list) {
    result_.all_.emplace_back().list = list;
    begins_.push_back({result_.nodes_.size(), result_.leaves_.size(), result_.args_.size(),
                       result_.sites_.size()});
    epochs_.clear();
  }
  std::uint32_t number() const { return static_cast<std::uint32_t>(begins_.size() - 1); }
  graph::Hash& hash() { return result_.all_.back().hash; }

  void mix_kind(const Node& node) {
    hash().mix(static_cast<std::uint64_t>(node.dtype) |
               static_cast<std::uint64_t>(node.shape.rank()) << 8);
    for (const std::int64_t size : node.shape) hash().mix(static_cast<std::uint64_t>(size));
  }
  // Epochs are numbered per batch.
  void mix_epoch(std::uint32_t epoch) {
    if (epoch == 0) return hash().mix(0);
    const auto known = std::find(epochs_.begin(), epochs_.end(), epoch);
    hash().mix(static_cast<std::uint64_t>(known - epochs_.begin()) + 1);
    if (known == epochs_.end()) epochs_.push_back(epoch);
  }

  // Makes the value of an input known in the stretch: as a node of it or as a leaf. Views of what
  // another stretch computes are repeated, because they move nothing.
  void read(Node* input, int views) {
    if (is_constant(*input)) return;
    const bool is_computed = is_node(*input);
    const std::uint32_t value = is_computed ? input->index : batch_.find_leaf(input);
    Place& place = is_computed ? node_places_[value] : leaf_places_[value];
    if (is_computed && place.stretch == number()) return;
    if (views > 0 && is_recorded(*input) && is_free_view(input->op)) {
      for (Node* source : input->input_span()) read(source, views - 1);
      return add(input, Stretch::kNoNode, first_arg_[input->index]);
    }
    if (is_reader_needed_)
      (is_computed ? result_.node_reader_ : result_.leaf_reader_)[value] = number();
    if (place.leaf_stretch == number()) return;
    place.leaf_stretch = number();
    place.leaf_number = static_cast<std::uint32_t>(result_.leaves_.size() - begins_.back().leaves);
    result_.leaves_.push_back({!is_computed, value});
    hash().mix(0x1EAF);
    mix_kind(*input);
  }

  // Adds a node whose inputs were read. Its arguments are numbered from `arg` on in the batch.
  void add(Node* node, std::uint32_t computes, std::uint32_t arg) {
    hash().mix(static_cast<std::uint64_t>(node->op) |
               static_cast<std::uint64_t>(node->attrs_count) << 16 |
               static_cast<std::uint64_t>(computes != Stretch::kNoNode) << 24 |
               std::uint64_t{node->inputs_count} << 32);
    mix_epoch(node->epoch);
    mix_kind(*node);
    for (const std::int64_t attr : node->attr_span()) hash().mix(static_cast<std::uint64_t>(attr));
    for (const Node* input : node->input_span()) {
      if (is_constant(*input)) {
        const bool is_literal = !is_argument(*input);
        hash().mix(is_literal ? 0x117 : 0xA26);
        mix_kind(*input);
        if (is_literal) hash().mix(std::bit_cast<std::uint64_t>(input->value));
        if (!is_literal) result_.args_.push_back(arg++);
        continue;
      }
      const bool is_computed = is_node(*input);
      const Place& place =
          is_computed ? node_places_[input->index] : leaf_places_[batch_.find_leaf(input)];
      const bool is_inside = is_computed && place.stretch == number();
      hash().mix(is_inside ? std::uint64_t{place.number} << 1
                           : (std::uint64_t{place.leaf_number} << 1 | 1));
    }
    if (graph::checks_indices(node->op)) result_.sites_.push_back(first_site_[node->index]);
    Place& place = node_places_[node->index];
    place.stretch = number();
    place.number = static_cast<std::uint32_t>(result_.nodes_.size() - begins_.back().nodes);
    result_.nodes_.push_back(node);
    result_.computes_.push_back(computes);
  }

  void add_nodes(std::size_t first, std::size_t end, std::uint32_t list) {
    begin(list);
    for (std::size_t n = first; n < end; ++n) {
      Node* node = batch_.nodes[n];
      is_reader_needed_ = needed_[n];
      for (Node* input : node->input_span()) read(input, kMostViews);
      add(node, node->index, first_arg_[n]);
    }
    is_reader_needed_ = true;
  }
  void add_cut(std::size_t first, std::size_t end) {
    for (const std::size_t last : cuts_of(batch_, result_.length(), first, end)) {
      add_nodes(first, last + 1, Stretch::kNoList);
      first = last + 1;
    }
  }

  // A node that stands for a part of a recorded one: it does the same to other inputs, with other
  // attributes, and its result is like the one given.
  Node* make_part(const Node& whole, const Node& result, std::span<Node* const> inputs,
                  std::span<const std::int64_t> attrs) {
    Node& part = result_.made_.emplace_back(whole.op, result.shape, result.dtype, whole.entry);
    part.index = static_cast<std::uint32_t>(node_places_.size());
    part.place = whole.place;
    part.epoch = whole.epoch;
    part.inputs = static_cast<Node**>(result_.memory_.take(inputs.size_bytes()));
    std::copy(inputs.begin(), inputs.end(), part.inputs);
    part.inputs_count = static_cast<std::uint32_t>(inputs.size());
    part.attrs = static_cast<std::int64_t*>(result_.memory_.take(attrs.size_bytes()));
    std::copy(attrs.begin(), attrs.end(), part.attrs);
    part.attrs_count = static_cast<std::uint8_t>(attrs.size());
    node_places_.emplace_back();
    result_.node_reader_.push_back(0);
    return &part;
  }

  // Each element becomes an update of one element.
  void add_update(std::size_t n, const graph::UpdateList& form) {
    const Node& whole = *batch_.nodes[n];
    const auto inputs = whole.input_span();
    std::vector<std::uint32_t> args;  // per input, its number among the arguments if it is one
    std::uint32_t next = first_arg_[n];
    for (const Node* input : inputs) args.push_back(is_argument(*input) ? next++ : next);
    std::vector<std::int64_t> attrs(whole.attr_span().begin(), whole.attr_span().end());
    attrs[0] = 1;
    const std::uint32_t list = number() + 1;
    std::vector<Node*> some;
    for (std::size_t k = 0; k < form.count; ++k) {
      begin(list);
      some.clear();
      const std::size_t own = k * form.inputs_each, shared = form.count * form.inputs_each;
      const auto visit_inputs = [&](const auto& visit) {
        for (std::size_t i = own; i < own + form.inputs_each; ++i) visit(i);
        for (std::size_t i = shared; i < inputs.size(); ++i) visit(i);
      };
      visit_inputs([&](std::size_t i) {
        some.push_back(inputs[i]);
        read(inputs[i], kMostViews);
      });
      const std::size_t first = n + 1 + k * form.outputs_each;
      Node* part = make_part(whole, *batch_.nodes[first], some, attrs);
      const std::size_t first_arg = result_.args_.size();
      add(part, Stretch::kNoNode, 0);
      result_.args_.resize(first_arg);  // those of an element are not next to those of all
      visit_inputs([&](std::size_t i) {
        if (is_argument(*inputs[i])) result_.args_.push_back(args[i]);
      });
      for (std::size_t i = 0; i < form.outputs_each; ++i) {
        const Node& output = *batch_.nodes[first + i];
        const std::int64_t which[] = {static_cast<std::int64_t>(i)};
        add(make_part(output, output, {&part, 1}, which), output.index, 0);
      }
    }
  }

  // Each element is reduced, then the results are joined as the whole operation joins them.
  void add_reduction(std::size_t n) {
    Node& whole = *batch_.nodes[n];
    std::vector<std::int64_t> attrs(whole.attr_span().begin(), whole.attr_span().end());
    attrs.push_back(0);
    std::vector<Node*> parts;
    const auto add_part = [&](graph::ReductionPart kind, std::span<Node* const> inputs,
                              std::uint32_t list) {
      begin(list);
      attrs.back() = static_cast<std::int64_t>(kind);
      for (Node* input : inputs) read(input, kMostViews);
      Node* part = make_part(whole, whole, inputs, attrs);
      add(part, kind == graph::ReductionPart::Last ? whole.index : part->index, 0);
      parts.push_back(part);
    };
    std::uint32_t list = number() + 1;
    for (const std::size_t i : elements_of(n))
      add_part(graph::ReductionPart::Element, {&whole.inputs[i], 1}, list);
    while (parts.size() > 1) {
      const std::vector<Node*> before = std::exchange(parts, {});
      const std::size_t groups = (before.size() + graph::kJoinedAtOnce - 1) / graph::kJoinedAtOnce;
      list = number() + 1;
      for (std::size_t i = 0; i < groups; ++i) {
        const std::size_t first = before.size() * i / groups,
                          end = before.size() * (i + 1) / groups;
        add_part(groups > 1 ? graph::ReductionPart::Join : graph::ReductionPart::Last,
                 std::span(before).subspan(first, end - first), list);
      }
    }
  }

  void make_spans() {
    begins_.push_back({result_.nodes_.size(), result_.leaves_.size(), result_.args_.size(),
                       result_.sites_.size()});
    const auto between = [](const auto& list, std::size_t first, std::size_t end) {
      return std::span(list).subspan(first, end - first);
    };
    for (std::size_t s = 0; s < result_.all_.size(); ++s) {
      Stretch& stretch = result_.all_[s];
      const Begin &from = begins_[s], &to = begins_[s + 1];
      stretch.nodes = between(result_.nodes_, from.nodes, to.nodes);
      stretch.computes = between(result_.computes_, from.nodes, to.nodes);
      stretch.leaves = between(result_.leaves_, from.leaves, to.leaves);
      stretch.args = between(result_.args_, from.args, to.args);
      stretch.sites = between(result_.sites_, from.sites, to.sites);
    }
  }

  const Batch& batch_;
  Stretches& result_;
  std::vector<std::uint32_t> first_arg_, first_site_;  // per node of the batch
  std::vector<Place> node_places_, leaf_places_;
  std::vector<Begin> begins_;          // per stretch
  std::vector<std::uint32_t> epochs_;  // of the latest stretch
  std::vector<bool> needed_;           // per node of the batch: whether a held node depends on it
  bool is_reader_needed_ = true;       // whether the node whose inputs are being read counts
};

Stretches::Stretches(const Batch& batch, StretchLength length) : batch_(batch), length_(length) {
  Cutter(batch, *this).run();
}

Node& Stretches::node(std::uint32_t number) const {
  const std::size_t recorded = batch_.nodes.size();
  return number < recorded ? *batch_.nodes[number] : const_cast<Node&>(made_[number - recorded]);
}

}  // namespace volta::plan
