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

// The lengths of stretches. Between them, the place is chosen where fewest values cross.
constexpr std::size_t kLeast = 16, kMost = 64;
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

}  // namespace

std::vector<std::size_t> cuts_of(const Batch& batch, std::size_t first, std::size_t end) {
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
    for (std::size_t n = begin + kLeast - 1; n < count && (n < begin + kMost || !is_found); ++n) {
      if (!may_cut[n] || (is_found && crossing[n] >= crossing[best])) continue;
      best = n;
      is_found = true;
    }
    cuts.push_back(first + best);
    begin = best + 1;
  }
  return cuts;
}

namespace {

// Builds the stretches of a batch one after the other.
class Cutter {
 public:
  Cutter(const Batch& batch, Stretches& result) : batch_(batch), result_(result) {
    std::uint32_t args = 0, sites = 0;
    for (const Node* node : batch.nodes) {
      first_arg_.push_back(args);
      first_site_.push_back(sites);
      for (const Node* input : node->input_span()) args += is_argument(*input) ? 1 : 0;
      sites += graph::checks_indices(node->op) ? 1 : 0;
    }
  }

  void run() {
    std::size_t plain = 0;  // the first node that is in no stretch yet
    for (std::size_t n = 0; n < batch_.nodes.size();) {
      const std::size_t end = end_of_node(n);
      const std::size_t alike = end_of_alike(n);
      const auto flush = [&] {
        if (plain < n) add_cut(plain, n);
      };
      if (const auto list = graph::update_list(*batch_.nodes[n], end - n - 1);
          list && list->count >= kLeastElements) {
        flush();
        add_update(n, *list);
        plain = end;
      } else if (graph::reduces_list(batch_.nodes[n]->op) && elements_of(n).size() > 1) {
        flush();
        add_reduction(n);
        plain = end;
      } else if (alike - n >= kLeastAlike) {
        flush();
        add_alike(n, alike);
        plain = n = alike;
        continue;
      }
      n = end;
    }
    if (plain < batch_.nodes.size()) add_cut(plain, batch_.nodes.size());
  }

 private:
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
                      [&](const Node* input) { return is_of_batch(*input, first); }))
        break;
    }
    if (end < batch_.nodes.size() && batch_.nodes[end]->op == OpId::output) --end;
    return end;
  }
  bool is_of_batch(const Node& node, std::size_t from = 0) const {
    return node.index >= from && node.index < batch_.nodes.size() &&
           batch_.nodes[node.index] == &node;
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

  Stretch& begin(std::size_t list) {
    result_.all.emplace_back().list = list;
    return result_.all.back();
  }

  // The value of an input, as a node of the stretch or as a leaf of it.
  void read(Stretch& stretch, Node* input, int views) {
    if (is_constant(*input) || stretch.view.number(*input) != BatchView::kNone) return;
    if (views > 0 && is_of_batch(*input) && is_free_view(input->op)) {
      for (std::uint32_t i = 0; i < input->inputs_count; ++i)
        read(stretch, input->inputs[i], views - 1);
      return add(stretch, input, nullptr, first_arg_[input->index]);
    }
    result_.last_reader[input] = result_.all.size() - 1;
    if (stretch.view.leaf_number(*input) != BatchView::kNone) return;
    stretch.view.add_leaf(input);
    mix_new(stretch.hash, *input);
  }

  static void mix_shape(graph::Hash& hash, const Node& node) {
    hash.mix(static_cast<std::uint64_t>(node.dtype) | static_cast<std::uint64_t>(node.shape.rank())
                                                          << 8);
    for (const std::int64_t size : node.shape) hash.mix(static_cast<std::uint64_t>(size));
  }
  static void mix_new(graph::Hash& hash, const Node& leaf) {
    hash.mix(0x1EAF);
    mix_shape(hash, leaf);
  }

  // Adds a node whose inputs were read. Its arguments are numbered from `arg` on in the batch.
  void add(Stretch& stretch, Node* node, const Node* computes, std::uint32_t arg) {
    graph::Hash& hash = stretch.hash;
    hash.mix(static_cast<std::uint64_t>(node->op) |
             static_cast<std::uint64_t>(node->attrs_count) << 16 |
             static_cast<std::uint64_t>(computes != nullptr) << 24 |
             std::uint64_t{node->inputs_count} << 32);
    hash.mix(epoch_in(stretch, node->epoch));
    mix_shape(hash, *node);
    for (const std::int64_t attr : node->attr_span()) hash.mix(static_cast<std::uint64_t>(attr));
    for (const Node* input : node->input_span()) {
      if (is_constant(*input)) {
        const bool is_literal = !is_argument(*input);
        hash.mix(is_literal ? 0x117 : 0xA26);
        mix_shape(hash, *input);
        if (is_literal) hash.mix(std::bit_cast<std::uint64_t>(input->value));
        if (!is_literal) stretch.args.push_back(arg++);
        continue;
      }
      const std::uint32_t number = stretch.view.number(*input);
      const std::uint32_t leaf = stretch.view.leaf_number(*input);
      hash.mix(number != BatchView::kNone ? std::uint64_t{number} << 1
                                          : (std::uint64_t{leaf} << 1 | 1));
    }
    if (graph::checks_indices(node->op)) stretch.sites.push_back(first_site_[node->index]);
    stretch.view.add_node(node, Wanted::No);
    stretch.computes.push_back(computes);
  }
  // Epochs are numbered per batch.
  std::uint64_t epoch_in(const Stretch& stretch, std::uint32_t epoch) {
    if (stretch.view.nodes().empty()) epochs_.clear();
    if (epoch == 0) return 0;
    const auto known = std::find(epochs_.begin(), epochs_.end(), epoch);
    const auto number = static_cast<std::uint64_t>(known - epochs_.begin());
    if (known == epochs_.end()) epochs_.push_back(epoch);
    return number + 1;
  }

  void add_nodes(std::size_t first, std::size_t end, std::size_t list) {
    Stretch& stretch = begin(list);
    for (std::size_t n = first; n < end; ++n) {
      Node* node = batch_.nodes[n];
      for (Node* input : node->input_span()) read(stretch, input, kMostViews);
      add(stretch, node, node, first_arg_[n]);
    }
  }
  void add_cut(std::size_t first, std::size_t end) {
    for (const std::size_t last : cuts_of(batch_, first, end)) {
      add_nodes(first, last + 1, Stretch::kNoList);
      first = last + 1;
    }
  }
  void add_alike(std::size_t first, std::size_t end) {
    const std::size_t list = result_.all.size();
    for (std::size_t n = first; n < end; ++n) add_nodes(n, n + 1, list);
  }

  // The number of an input among the arguments of the batch, for each input of a node.
  std::vector<std::uint32_t> args_of(std::size_t n) const {
    std::vector<std::uint32_t> args;
    std::uint32_t next = first_arg_[n];
    for (const Node* input : batch_.nodes[n]->input_span()) {
      args.push_back(next);
      next += is_argument(*input) ? 1 : 0;
    }
    return args;
  }

  // A part of a recorded node. The stretch computes the value of `computes` by it, if any.
  Node* add_part(Stretch& stretch, const Node& whole, const Node& result,
                 std::span<Node* const> inputs, std::span<const std::int64_t> attrs,
                 const Node* computes, std::uint32_t arg) {
    for (Node* input : inputs) read(stretch, input, kMostViews);
    Node* part = stretch.view.make_part(whole, result, inputs, attrs);
    add(stretch, part, computes, arg);
    return part;
  }

  void add_update(std::size_t n, const graph::UpdateList& form) {
    const Node& whole = *batch_.nodes[n];
    const auto inputs = whole.input_span();
    const auto shared = inputs.subspan(form.count * form.inputs_each);
    const std::vector<std::uint32_t> args = args_of(n);
    std::vector<std::int64_t> attrs(whole.attr_span().begin(), whole.attr_span().end());
    attrs[0] = 1;
    const std::size_t list = result_.all.size();
    for (std::size_t k = 0; k < form.count; ++k) {
      Stretch& stretch = begin(list);
      const auto own = inputs.subspan(k * form.inputs_each, form.inputs_each);
      std::vector<Node*> some(own.begin(), own.end());
      some.insert(some.end(), shared.begin(), shared.end());
      const std::size_t first = n + 1 + k * form.outputs_each;
      Node* part = add_part(stretch, whole, *batch_.nodes[first], some, attrs, nullptr, 0);
      // The arguments of an element are not next to those that all share.
      stretch.args.clear();
      for (std::size_t i = 0; i < some.size(); ++i) {
        const std::size_t at = i < own.size() ? k * form.inputs_each + i
                                              : form.count * form.inputs_each + i - own.size();
        if (is_argument(*some[i])) stretch.args.push_back(args[at]);
      }
      for (std::size_t i = 0; i < form.outputs_each; ++i) {
        const Node& output = *batch_.nodes[first + i];
        const std::int64_t number[] = {static_cast<std::int64_t>(i)};
        add_part(stretch, output, output, {&part, 1}, number, &output, 0);
      }
    }
  }

  void add_reduction(std::size_t n) {
    Node& whole = *batch_.nodes[n];
    const auto attrs_as = [&](graph::ReductionPart part) {
      std::vector<std::int64_t> attrs(whole.attr_span().begin(), whole.attr_span().end());
      attrs.push_back(static_cast<std::int64_t>(part));
      return attrs;
    };
    std::vector<Node*> parts;
    std::size_t list = result_.all.size();
    const auto add_one = [&](graph::ReductionPart kind, std::span<Node* const> inputs) {
      Stretch& stretch = begin(list);
      const Node* computes = &whole;
      if (kind != graph::ReductionPart::Last) {
        Node& made = result_.made.emplace_back(whole.op, whole.shape, whole.dtype, whole.entry);
        parts.push_back(&made);
        computes = &made;
      }
      add_part(stretch, whole, whole, inputs, attrs_as(kind), computes, 0);
    };
    for (const std::size_t i : elements_of(n))
      add_one(graph::ReductionPart::Element, {&whole.inputs[i], 1});
    while (!parts.empty()) {
      const std::vector<Node*> before = std::exchange(parts, {});
      const std::size_t groups = (before.size() + graph::kJoinedAtOnce - 1) / graph::kJoinedAtOnce;
      list = result_.all.size();
      for (std::size_t i = 0; i < groups; ++i) {
        const std::size_t first = before.size() * i / groups,
                          end = before.size() * (i + 1) / groups;
        add_one(groups > 1 ? graph::ReductionPart::Join : graph::ReductionPart::Last,
                std::span(before).subspan(first, end - first));
      }
    }
  }

  const Batch& batch_;
  Stretches& result_;
  std::vector<std::uint32_t> first_arg_, first_site_;  // per node of the batch
  std::vector<std::uint32_t> epochs_;                  // of the stretch being built
};

}  // namespace

Stretches::Stretches(const Batch& batch) { Cutter(batch, *this).run(); }

}  // namespace volta::plan
