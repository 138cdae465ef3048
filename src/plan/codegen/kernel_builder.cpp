// Building kernel programs. Numbers stay concrete until the end; then axes are merged and every
// size, stride and offset other than 0 and 1 becomes a parameter.
#include "plan/kernel_builder.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <stdexcept>

#include "plan/fusion.h"
#include "plan/schedule.h"

namespace volta::plan {

using kernel::Affine;
using kernel::Domain;
using kernel::Instr;
using kernel::InstrKind;
using kernel::Int;
using kernel::Role;

namespace {

// An instruction with concrete index expressions.
struct Draft {
  Instr instr;
  Linear index = Linear(0);
  std::vector<LinearBound> mask = {};
  std::int64_t value_stride = 0;
  std::int64_t high = 0;
  std::int64_t site = 0;
};

struct SplitAxis {
  AxisSplit split;
};

class Builder {
 public:
  Builder(const std::vector<Value>& values, const Grouping& grouping, int group, bool wide_device)
      : values_(values),
        grouping_(grouping),
        number_(group),
        wide_device_(wide_device),
        group_(grouping.groups[static_cast<std::size_t>(group)]) {
    for (std::size_t d = 0; d < group_.space.dims.size(); ++d)
      pieces_.push_back({group_.space.dims[d]});
    unit_ = group_.space.dims.empty() &&
            std::any_of(group_.roots.begin(), group_.roots.end(),
                        [&](int root) { return at(root).shape.rank() > 0; });
  }

  KernelDraft build() {
    for (;;) {
      start();
      try {
        for (const int root : group_.roots) emit_root(root);
        for (const int root : group_.once) emit_once(root);
        // Stores come last: what is updated in place has been read by then.
        for (Draft& store : stores_) drafts_.push_back(std::move(store));
        break;
      } catch (const SplitAxis& request) {
        split_axis(request.split);
      }
    }
    return finish();
  }

 private:
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  // What has no elements is not read: where its index is the same at every point, a kernel would
  // read it before any loop.
  bool is_empty(int id) const { return at(id).shape.numel() == 0; }

  // Axes: pieces of the kept dims, then pieces of the reduced ones.
  void start() {
    bound_ = -1;
    extents_.clear();
    roles_.clear();
    first_axis_.assign(group_.space.dims.size(), 0);
    drafts_.clear();
    stores_.clear();
    memo_.clear();
    sizes_.clear();
    slots_.clear();
    slot_values_.clear();
    args_.clear();
    for (const bool reduced : {false, true}) {
      for (std::size_t d = 0; d < group_.space.dims.size(); ++d) {
        if (group_.space.reduced[d] != reduced) continue;
        first_axis_[d] = extents_.size();
        for (const std::int64_t extent : pieces_[d]) {
          extents_.push_back(extent);
          roles_.push_back(reduced ? Role::Red : Role::Par);
        }
      }
    }
    if (unit_) {
      extents_.push_back(1);
      roles_.push_back(Role::Par);
    }
  }

  void split_axis(const AxisSplit& split) {
    for (std::size_t d = 0; d < pieces_.size(); ++d) {
      if (split.axis < first_axis_[d] || split.axis >= first_axis_[d] + pieces_[d].size()) continue;
      const std::size_t piece = split.axis - first_axis_[d];
      const std::int64_t outer = pieces_[d][piece] / split.inner;
      pieces_[d][piece] = outer;
      pieces_[d].insert(pieces_[d].begin() + static_cast<std::ptrdiff_t>(piece) + 1, split.inner);
      return;
    }
  }

  // The index of a group's dim: its pieces as digits.
  Linear dim_index(std::size_t dim) const {
    Linear index(extents_.size());
    std::int64_t stride = 1;
    for (std::size_t k = pieces_[dim].size(); k-- > 0;) {
      index.coefficient[first_axis_[dim] + k] = stride;
      stride *= pieces_[dim][k];
    }
    return index;
  }

  // An index over the group's dims, over the kernel's axes.
  IndexMap over_axes(const IndexMap& over_dims) const {
    IndexMap index;
    for (const Linear& e : over_dims) {
      Linear total(extents_.size());
      for (std::size_t d = 0; d < e.coefficient.size(); ++d)
        total.add(dim_index(d), e.coefficient[d]);
      index.push_back(std::move(total));
    }
    if (unit_ && !index.empty()) index.back() = Linear::axis(1, 0);
    return index;
  }

  // Where the group computes a root of its own.
  IndexMap own_index(int root) const {
    return over_axes(root_index(values_, root, group_.space).value());
  }

  int append(Draft draft) {
    draft.index.coefficient.resize(extents_.size());  // those without an index, too
    drafts_.push_back(std::move(draft));
    return static_cast<int>(drafts_.size()) - 1;
  }

  int slot_of(int value, bool write) {
    for (std::size_t s = 0; s < slot_values_.size(); ++s) {
      if (slot_values_[s] == value) {
        (write ? slots_[s].written : slots_[s].read) = true;
        return static_cast<int>(s);
      }
    }
    slots_.push_back({at(value).dtype, !write, write});
    slot_values_.push_back(value);
    return static_cast<int>(slots_.size()) - 1;
  }

  void emit_root(int root) {
    const Value& v = at(root);
    const IndexMap index = own_index(root);
    const int value = v.kind == ValueKind::Reduce ? emit_reduce(root)
                      : v.kind == ValueKind::Scan ? emit_scan(root)
                                                  : emit_value(root, index, {});
    if (!grouping_.stored[static_cast<std::size_t>(root)]) return;
    Draft store{.instr = {.kind = InstrKind::Store}};
    store.instr.dtype = v.dtype;
    store.instr.a = value;
    store.instr.slot = slot_of(root, true);
    store.index = address_of(v, index, extents_.size());
    stores_.push_back(std::move(store));
  }

  void emit_once(int root) {
    const Value& v = at(root);
    const IndexMap index(static_cast<std::size_t>(v.shape.rank()), Linear(extents_.size()));
    Draft store{.instr = {.kind = InstrKind::Store}};
    store.instr.a = emit_value(root, index, {});
    store.instr.dtype = v.dtype;
    store.instr.once = true;
    store.instr.slot = slot_of(root, true);
    store.index = Linear(extents_.size());
    stores_.push_back(std::move(store));
  }

  int emit_reduce(int root) {
    const auto key = memo_key(root, {}, {});
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    const Value& v = at(root);
    Draft reduce{.instr = {.kind = InstrKind::Reduce}};
    reduce.instr.a =
        emit(v.in[0], over_axes(place_whole(at(v.in[0]).shape, group_.space).value()), {});
    reduce.instr.dtype = v.dtype;
    reduce.instr.reduce = v.reduce;
    if (v.in[1] >= 0) bound_ = emit_kept(v.in[1]);
    return memo_[key] = append(std::move(reduce));
  }

  int emit_scan(int root) {
    const auto key = memo_key(root, {}, {});
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    const Value& v = at(root);
    Draft scan{.instr = {.kind = InstrKind::Scan}};
    scan.instr.a = emit(v.in[0], own_index(root), {});
    if (v.in[1] >= 0) scan.instr.b = emit_kept(v.in[1]);
    scan.instr.dtype = v.dtype;
    scan.instr.reverse = v.attrs[1] != 0;
    return memo_[key] = append(std::move(scan));
  }

  // A value that each row has one of.
  int emit_kept(int id) {
    return emit(id, over_axes(place_kept(at(id).shape, group_.space).value()), {});
  }

  using Key = std::vector<std::int64_t>;
  static Key memo_key(int id, const IndexMap& index, const std::vector<LinearBound>& mask) {
    Key key{id};
    const auto put = [&](const Linear& e) {
      key.insert(key.end(), e.coefficient.begin(), e.coefficient.end());
      key.push_back(e.offset);
    };
    for (const Linear& e : index) put(e);
    for (const LinearBound& b : mask) put(b.expression), key.push_back(b.high);
    return key;
  }

  // The value at an index: loaded if it lies in memory, else computed here.
  int emit(int id, const IndexMap& index, const std::vector<LinearBound>& mask) {
    const bool again =
        std::find(group_.again.begin(), group_.again.end(), id) != group_.again.end();
    if (!again && grouping_.in_memory(values_, id)) {
      const bool own = grouping_.group_of[static_cast<std::size_t>(id)] == number_;
      if (!own) return emit_load(id, index, mask, 0);
      if (at(id).kind == ValueKind::Reduce) return emit_reduce(id);
      if (at(id).kind == ValueKind::Scan) return emit_scan(id);
    }
    return emit_value(id, index, mask);
  }

  int emit_load(int id, const IndexMap& index, const std::vector<LinearBound>& mask, double fill) {
    Key key = memo_key(id, index, mask);
    key.push_back(std::bit_cast<std::int64_t>(fill));
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    if (is_empty(id)) return memo_[key] = constant(fill, at(id).dtype);
    Draft load{.instr = {.kind = InstrKind::Load}};
    load.instr.dtype = at(id).dtype;
    load.instr.slot = slot_of(id, false);
    load.instr.constant = fill;
    load.index = address_of(at(id), index, extents_.size());
    load.mask = mask;
    return memo_[key] = append(std::move(load));
  }

  int constant(double number, DType dtype) {
    Draft draft{.instr = {.kind = InstrKind::Const}};
    draft.instr.dtype = dtype;
    draft.instr.constant = number;
    return append(std::move(draft));
  }

  int scalar(kernel::ScalarOp op, DType dtype, int a, int b = -1, int c = -1) {
    Draft draft{.instr = {.kind = InstrKind::Op}};
    draft.instr.op = op;
    draft.instr.dtype = dtype;
    draft.instr.a = a;
    draft.instr.b = b;
    draft.instr.c = c;
    return append(std::move(draft));
  }

  const Draft& draft_of(int value) const { return drafts_[static_cast<std::size_t>(value)]; }

  int converted(int value, DType dtype) {
    if (draft_of(value).instr.dtype == dtype) return value;
    Draft draft{.instr = {.kind = InstrKind::Cast}};
    draft.instr.a = value;
    draft.instr.dtype = dtype;
    return append(std::move(draft));
  }

  int emit_index(const Linear& e, DType dtype) {
    Draft draft{.instr = {.kind = InstrKind::Index}};
    draft.instr.dtype = dtype;
    draft.index = e;
    return append(std::move(draft));
  }

  int emit_value(int id, const IndexMap& index, const std::vector<LinearBound>& mask) {
    const Key key = memo_key(id, index, mask);
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    const int result = compute(id, index, mask);
    return memo_[key] = result;
  }

  int compute(int id, const IndexMap& index, const std::vector<LinearBound>& mask) {
    const Value& v = at(id);
    switch (v.kind) {
      case ValueKind::Const:
        return constant(v.constant, v.dtype);
      case ValueKind::Size: {
        Linear e(extents_.size());
        e.offset = static_cast<std::int64_t>(v.constant);
        sizes_.insert(static_cast<int>(drafts_.size()));
        return emit_index(e, DType::i64);
      }
      case ValueKind::Arg: {
        Draft draft{.instr = {.kind = InstrKind::Arg}};
        draft.instr.dtype = v.dtype;
        draft.instr.slot = static_cast<int>(args_.size());
        args_.push_back({v.number, v.dtype});
        return append(std::move(draft));
      }
      case ValueKind::Iota:
        return emit_index(index[static_cast<std::size_t>(v.attrs[0])], v.dtype);
      case ValueKind::Philox: {
        Draft draft{.instr = {.kind = InstrKind::Philox}};
        draft.instr.dtype = v.dtype;
        draft.instr.a = emit(v.in[0], {}, {});
        draft.instr.b = emit(v.in[1], {}, {});
        const Linear element = flatten(index, v.shape, extents_.size());
        draft.index = Linear(extents_.size());
        draft.index.add(element, v.attrs[0]);
        draft.index.offset += v.attrs[1];
        return append(std::move(draft));
      }
      case ValueKind::Cast: {
        Draft draft{.instr = {.kind = InstrKind::Cast}};
        draft.instr.a = emit(v.in[0], index, mask);
        draft.instr.dtype = v.dtype;
        return append(std::move(draft));
      }
      case ValueKind::Bounded: {
        Draft draft{.instr = {.kind = InstrKind::Bounded}};
        draft.instr.a = emit(v.in[0], index, mask);
        // In a padding there is no index to be out of range; what is loaded there is 0 already.
        if (!mask.empty() && draft_of(draft.instr.a).instr.kind != InstrKind::Load) {
          draft.instr.a = scalar(kernel::ScalarOp::where, v.dtype, emit_inside(mask), draft.instr.a,
                                 constant(0, v.dtype));
        }
        draft.instr.dtype = v.dtype;
        draft.high = v.attrs[0];
        draft.site = v.number;
        return append(std::move(draft));
      }
      case ValueKind::Placed:
        return emit(v.in[0], index, mask);
      case ValueKind::Scalar: {
        int operand[3] = {-1, -1, -1};
        for (std::size_t k = 0; k < 3; ++k) {
          if (v.in[k] >= 0) operand[k] = emit(v.in[k], index, mask);
        }
        return scalar(v.op, v.dtype, operand[0], operand[1], operand[2]);
      }
      case ValueKind::Gather: {
        const std::size_t rows = static_cast<std::size_t>(at(v.in[1]).shape.rank());
        const IndexMap row(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(rows));
        const int base = reshape_base(values_, v.in[0]);
        if (is_empty(base)) return constant(0, v.dtype);
        const Shape& source = at(v.in[0]).shape;
        IndexMap within{Linear(extents_.size())};
        within.insert(within.end(), index.begin() + static_cast<std::ptrdiff_t>(rows), index.end());
        Draft load{.instr = {.kind = InstrKind::Load}};
        load.instr.a = emit(v.in[1], row, mask);
        load.instr.dtype = v.dtype;
        load.instr.slot = slot_of(base, false);
        load.index = flatten(within, source, extents_.size());
        load.value_stride = source.numel() / std::max<std::int64_t>(source[0], 1);
        load.mask = mask;
        return append(std::move(load));
      }
      case ValueKind::Search: {
        Draft search{.instr = {.kind = InstrKind::Search}};
        search.instr.a = emit(v.in[1], index, mask);
        search.instr.dtype = v.dtype;
        search.instr.slot = slot_of(reshape_base(values_, v.in[0]), false);
        search.index = Linear(extents_.size());
        search.index.offset = v.attrs[0];
        search.value_stride = v.attrs[1];
        search.high = v.attrs[2];
        return append(std::move(search));
      }
      case ValueKind::Reshape:
      case ValueKind::Permute:
      case ValueKind::Expand:
      case ValueKind::Shrink:
      case ValueKind::Affine:
      case ValueKind::Pad:
        return emit_view(v, index, mask);
      case ValueKind::Leaf:
      case ValueKind::Reduce:
      case ValueKind::Scan:
      case ValueKind::Matmul:
      case ValueKind::Conv:
      case ValueKind::Sort:
      case ValueKind::Attention:
      case ValueKind::StepResult:
      case ValueKind::Join:
        break;
    }
    throw std::logic_error("planner: a value of memory was asked to be computed");
  }

  int emit_view(const Value& v, const IndexMap& index, const std::vector<LinearBound>& mask) {
    const int operand = v.in[0];
    // A reshape of memory needs no following: the element number is the same.
    if (v.kind == ValueKind::Reshape) {
      const int base = reshape_base(values_, operand);
      const bool own = grouping_.group_of[static_cast<std::size_t>(base)] == number_;
      const Linear address = flatten(index, v.shape, extents_.size());
      if (grouping_.in_memory(values_, base) && is_dense(at(base))) {
        if (!own) return emit_load_at(base, address, mask);
        const IndexMap here = own_index(base);
        if (address == flatten(here, at(base).shape, extents_.size()))
          return emit(base, here, mask);
      }
    }
    std::vector<LinearBound> bounds;
    std::optional<AxisSplit> split;
    const auto inner = through_view(v, at(operand).shape, index, extents_, bounds, split);
    if (!inner) {
      if (split) throw SplitAxis{*split};
      throw NeedsStore{operand};
    }
    if (v.kind != ValueKind::Pad || bounds.empty()) return emit(operand, *inner, mask);
    std::vector<LinearBound> inside = mask;
    inside.insert(inside.end(), bounds.begin(), bounds.end());
    const bool own = grouping_.group_of[static_cast<std::size_t>(operand)] == number_;
    if (mask.empty() && grouping_.in_memory(values_, operand) && !own) {
      return emit_load(operand, *inner, inside, v.constant);
    }
    // Computed values: evaluate with masked loads, then choose.
    const int value = emit(operand, *inner, inside);
    const int condition = emit_inside(bounds);
    const DType dtype = v.dtype == DType::f16 || v.dtype == DType::bf16 ? DType::f32 : v.dtype;
    return converted(scalar(kernel::ScalarOp::where, dtype, condition, converted(value, dtype),
                            constant(v.constant, dtype)),
                     v.dtype);
  }

  // Whether the point lies within all bounds.
  int emit_inside(const std::vector<LinearBound>& bounds) {
    const Key key = memo_key(-1, {}, bounds);
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    int condition = -1;
    for (const LinearBound& b : bounds) {
      const int e = emit_index(b.expression, DType::i64);
      const int low = scalar(kernel::ScalarOp::le, DType::boolean, constant(0, DType::i64), e);
      Linear limit(extents_.size());
      limit.offset = b.high;
      const int high =
          scalar(kernel::ScalarOp::lt, DType::boolean, e, emit_index(limit, DType::i64));
      const int both = scalar(kernel::ScalarOp::logical_and, DType::boolean, low, high);
      condition = condition < 0
                      ? both
                      : scalar(kernel::ScalarOp::logical_and, DType::boolean, condition, both);
    }
    return memo_[key] = condition;
  }

  int emit_load_at(int base, const Linear& address, const std::vector<LinearBound>& mask) {
    Key key{base, -7};
    key.insert(key.end(), address.coefficient.begin(), address.coefficient.end());
    key.push_back(address.offset);
    for (const LinearBound& b : mask) {
      key.insert(key.end(), b.expression.coefficient.begin(), b.expression.coefficient.end());
      key.push_back(b.expression.offset);
      key.push_back(b.high);
    }
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    if (is_empty(base)) return memo_[key] = constant(0, at(base).dtype);
    Draft load{.instr = {.kind = InstrKind::Load}};
    load.instr.dtype = at(base).dtype;
    load.instr.slot = slot_of(base, false);
    load.index = address;
    load.index.offset += at(base).home_offset;
    load.mask = mask;
    return memo_[key] = append(std::move(load));
  }

  // ---- Finishing.

  // Adjacent axes of one role that every index walks as one become one.
  void merge_axes() {
    std::vector<Linear*> expressions;
    for (Draft& draft : drafts_) {
      expressions.push_back(&draft.index);
      for (LinearBound& b : draft.mask) expressions.push_back(&b.expression);
    }
    const auto erase = [&](std::size_t axis) {
      extents_.erase(extents_.begin() + static_cast<std::ptrdiff_t>(axis));
      roles_.erase(roles_.begin() + static_cast<std::ptrdiff_t>(axis));
      for (Linear* e : expressions)
        e->coefficient.erase(e->coefficient.begin() + static_cast<std::ptrdiff_t>(axis));
    };
    for (std::size_t a = extents_.size(); a-- > 0;) {
      const bool last_reduced =
          roles_[a] == Role::Red && std::count(roles_.begin(), roles_.end(), Role::Red) == 1;
      if (extents_[a] == 1 && !last_reduced && !unit_) erase(a);
    }
    for (std::size_t a = extents_.size(); a-- > 1;) {
      const std::size_t outer = a - 1, inner = a;
      if (roles_[outer] != roles_[inner]) continue;
      const bool one = std::all_of(expressions.begin(), expressions.end(), [&](const Linear* e) {
        return e->coefficient[outer] == e->coefficient[inner] * extents_[inner];
      });
      if (!one) continue;
      for (Linear* e : expressions) e->coefficient[outer] = e->coefficient[inner];
      extents_[outer] *= extents_[inner];
      erase(inner);
    }
  }

  Int number(std::int64_t value) {
    if (value == 0 || value == 1) return Int::literal(value);
    return parameter(value);
  }
  Int parameter(std::int64_t value) {
    result_.ints.push_back(value);
    return Int::param(result_.program.int_params++);
  }
  Affine affine(const Linear& e) {
    Affine result;
    for (std::size_t a = 0; a < e.coefficient.size(); ++a) {
      if (e.coefficient[a] != 0)
        result.terms.push_back({static_cast<int>(a), number(e.coefficient[a])});
    }
    result.offset = number(e.offset);
    return result;
  }

  KernelDraft finish() {
    merge_axes();
    kernel::Program& program = result_.program;
    program.slots = slots_;
    for (const int value : slot_values_) result_.slot_values.push_back(memory_of(values_, value));
    for (const auto& [arg, dtype] : args_) {
      result_.args.push_back(arg);
      program.args.push_back(dtype);
    }
    for (std::size_t a = 0; a < extents_.size(); ++a)
      program.axes.push_back({parameter(extents_[a]), roles_[a], -1});
    if (bound_ >= 0) program.axes.back().bound = bound_;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      const Draft& draft = drafts_[i];
      Instr instr = draft.instr;
      instr.index = affine(draft.index);
      // Sizes are parameters whatever their value: one kernel for every size.
      if (sizes_.count(static_cast<int>(i)) != 0)
        instr.index.offset = parameter(draft.index.offset);
      for (const LinearBound& b : draft.mask)
        instr.mask.push_back({affine(b.expression), parameter(b.high)});
      if (instr.kind == InstrKind::Load && instr.a >= 0)
        instr.value_stride = number(draft.value_stride);
      if (instr.kind == InstrKind::Search) {
        instr.value_stride = number(draft.value_stride);
        instr.high = parameter(draft.high);
      }
      if (instr.kind == InstrKind::Bounded) {
        instr.high = parameter(draft.high);
        instr.site = parameter(draft.site);
      }
      program.instrs.push_back(std::move(instr));
    }
    std::int64_t largest = 0;
    for (const int value : slot_values_) largest = std::max(largest, at(value).shape.numel());
    program.schedule = choose_schedule(program, result_.ints, largest, wide_device_);
    account();
    return std::move(result_);
  }

  // How many different elements a load reads at most.
  std::uint64_t elements_of(const Draft& load) const {
    std::uint64_t elements = 1;
    for (std::size_t a = 0; a < extents_.size(); ++a) {
      // Where a loaded value takes part in the address, every point may have one of its own.
      if (load.index.coefficient[a] != 0 || load.instr.a >= 0)
        elements *= static_cast<std::uint64_t>(extents_[a]);
    }
    return elements;
  }

  void account() {
    std::set<std::string> seen;
    std::vector<std::uint64_t> elements(slots_.size(), 0);  // read, per slot
    for (const Draft& draft : drafts_) {
      if (draft.instr.kind == InstrKind::Load)
        elements[static_cast<std::size_t>(draft.instr.slot)] += elements_of(draft);
      if (draft.instr.kind == InstrKind::Search)
        elements[static_cast<std::size_t>(draft.instr.slot)] +=
            static_cast<std::uint64_t>(draft.high);
    }
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const Value& v = at(slot_values_[s]);
      const std::uint64_t all = static_cast<std::uint64_t>(v.shape.numel());
      if (slots_[s].read) result_.bytes_read += std::min(elements[s], all) * size_of(v.dtype);
      if (slots_[s].written) result_.bytes_written += all * size_of(v.dtype);
    }
    std::uint64_t points = 1, rows = 1;
    for (std::size_t a = 0; a < extents_.size(); ++a) {
      points *= static_cast<std::uint64_t>(extents_[a]);
      if (roles_[a] == Role::Par) rows *= static_cast<std::uint64_t>(extents_[a]);
    }
    // Segments: each element of what is read belongs to one of them.
    for (std::size_t s = 0; bound_ >= 0 && s < slots_.size(); ++s) {
      const auto all = static_cast<std::uint64_t>(at(slot_values_[s]).shape.numel());
      points = s == 0 ? all : std::max(points, all);
    }
    const kernel::Analysis analysis = kernel::analyze(result_.program);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      const InstrKind kind = drafts_[i].instr.kind;
      const bool works = kind == InstrKind::Op || kind == InstrKind::Cast ||
                         kind == InstrKind::Reduce || kind == InstrKind::Scan;
      if (!works) continue;
      const Domain domain = kind == InstrKind::Reduce ? Domain::Full : analysis.instrs[i].domain;
      result_.operations += domain == Domain::Full ? points : domain == Domain::Par ? rows : 1;
    }
    for (const int root : group_.roots) append_labels(root, seen);
  }

  // The recorded operations a root came from, in order.
  void append_labels(int root, std::set<std::string>& seen) {
    std::vector<int> members, stack{root};
    std::set<int> visited;
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      if (!visited.insert(id).second) continue;
      const bool own = id == root || grouping_.group_of[static_cast<std::size_t>(id)] == number_;
      if (!own && grouping_.in_memory(values_, id)) continue;
      if (!at(id).is_view() && at(id).kind != ValueKind::Const && at(id).kind != ValueKind::Arg)
        members.push_back(id);
      for (const int in : at(id).in) {
        if (in >= 0) stack.push_back(in);
      }
    }
    std::sort(members.begin(), members.end());
    for (const int id : members) {
      if (*at(id).label == 0 || !seen.insert(at(id).label).second) continue;
      if (!result_.label.empty()) result_.label += ' ';
      result_.label += at(id).label;
    }
  }

  const std::vector<Value>& values_;
  const Grouping& grouping_;
  int number_;
  bool wide_device_;
  const Group& group_;

  // One element in a shape with axes keeps an axis: the kernel is the one for any number of
  // elements.
  bool unit_ = false;
  std::vector<std::vector<std::int64_t>> pieces_;  // per dim of the group: its axes' extents
  std::vector<std::size_t> first_axis_;            // per dim
  std::vector<std::int64_t> extents_;
  std::vector<Role> roles_;
  std::vector<Draft> drafts_, stores_;
  int bound_ = -1;  // the instruction that says how long rows are
  std::set<int> sizes_;
  std::map<Key, int> memo_;
  std::vector<kernel::Slot> slots_;
  std::vector<int> slot_values_;
  std::vector<std::pair<int, DType>> args_;
  KernelDraft result_;
};

}  // namespace

KernelDraft build_kernel(const std::vector<Value>& values, const Grouping& grouping, int group,
                         bool wide_device) {
  return Builder(values, grouping, group, wide_device).build();
}

}  // namespace volta::plan
