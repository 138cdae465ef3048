// From recorded nodes to the planner's values: expansion, explicit broadcasting, merging,
// simplification.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "core/registry.h"
#include "plan/ir.h"

namespace volta::plan {

using graph::Node;
using graph::NodeState;
using graph::OpId;
using kernel::ReduceOp;
using kernel::ScalarOp;

namespace {

void put(std::string& key, const void* data, std::size_t bytes) {
  key.append(static_cast<const char*>(data), bytes);
}

std::string merge_key(const Value& v) {
  std::string key;
  const std::int32_t head[] = {static_cast<int>(v.kind),
                               static_cast<int>(v.dtype),
                               static_cast<int>(v.op),
                               static_cast<int>(v.reduce),
                               v.in[0],
                               v.in[1],
                               v.in[2],
                               v.in[3],
                               v.in[4],
                               v.in[5],
                               v.number,
                               v.shape.rank()};
  put(key, head, sizeof head);
  put(key, v.shape.begin(), static_cast<std::size_t>(v.shape.rank()) * sizeof(std::int64_t));
  put(key, v.attrs.data(), v.attrs.size() * sizeof(std::int64_t));
  put(key, &v.constant, sizeof v.constant);
  return key;
}

// Elements: chunks of a row begin at whole lines of memory.
constexpr std::int64_t kChunkUnit = 32;

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

bool is_const(const Value& v, double number) {
  return v.kind == ValueKind::Const && v.constant == number && !std::signbit(v.constant);
}

// The constant behind views that only repeat it.
const Value& through_expand(const std::vector<Value>& values, int id) {
  const Value* v = &values[static_cast<std::size_t>(id)];
  while (v->kind == ValueKind::Expand || v->kind == ValueKind::Reshape) {
    v = &values[static_cast<std::size_t>(v->in[0])];
  }
  return *v;
}

bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }

// What changes no result of the reduction where it comes last, as a number that kernels can be
// given.
std::optional<double> identity(ReduceOp op, DType dtype) {
  if (op == ReduceOp::Sum) return 0;
  if (op == ReduceOp::Prod) return 1;
  const bool max = op == ReduceOp::Max || op == ReduceOp::ArgMax;
  switch (dtype) {
    case DType::boolean:
      return max ? 0 : 1;
    case DType::u8:
      return max ? 0 : 255;
    case DType::i32:
      return max ? std::numeric_limits<std::int32_t>::min()
                 : std::numeric_limits<std::int32_t>::max();
    case DType::i64:
      return std::nullopt;  // beyond 2^53
    default:
      return max ? -std::numeric_limits<double>::infinity()
                 : std::numeric_limits<double>::infinity();
  }
}

// Of columns on a GPU: enough to keep it busy; too short to cut; what their chunks are at most; and
// fewer than so many are shared by lanes (choose_schedule).
constexpr std::int64_t kManyColumns = 65536, kShortColumn = 128, kMostChunks = 8192,
                       kSharedColumns = 2048;

// The largest number of chunks in (wanted / 2, wanted] that are all equally long, multiples of
// `unit`, so that nothing is padded; `wanted` where there is none.
std::int64_t even_chunks(std::int64_t extent, std::int64_t wanted, std::int64_t unit) {
  for (std::int64_t chunks = wanted; chunks > wanted / 2 && chunks > 1; --chunks) {
    if (extent % (chunks * unit) == 0) return chunks;
  }
  return wanted;
}

}  // namespace

bool keeps_busy(std::int64_t extent, std::int64_t results, bool innermost, bool wide_device) {
  if (wide_device && !innermost) return results >= kManyColumns || extent < kShortColumn;
  return reduction_chunks(extent, results, innermost, wide_device) == 1;
}

std::int64_t reduction_chunks(std::int64_t extent, std::int64_t results, bool innermost,
                              bool wide_device) {
  if (innermost) {  // rows: threads share a row
    if (results >= 128 || extent <= 8192) return 1;
    const std::int64_t chunks = (extent + 4095) / 4096;
    if (!wide_device) return std::min<std::int64_t>(chunks, 2048);
    // The blocks of 256 threads that fill the largest chip at once.
    const std::int64_t most = std::max<std::int64_t>(1056 / results, 16);
    return even_chunks(extent, std::min(chunks, most), kChunkUnit);
  }
  // Columns: a thread (or a lane) has a column to itself.
  if (!wide_device) {
    if (results >= 1024 || extent < 4096) return 1;
    return std::min(1024 / results, extent / 16);
  }
  // So many sums at a time keep the memory busy, if each is of some length. Lanes that share a
  // column add up the chunks' results, or as little as that, in one kernel.
  const std::int64_t busy = std::int64_t{1} << (results < 128 ? 18 : 19);
  if (results >= kManyColumns || extent < kShortColumn) return 1;
  if (results < kSharedColumns && results * extent <= busy && extent <= kMostChunks) return 1;
  const auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(extent)));
  const auto balanced = static_cast<std::int64_t>(std::bit_floor(root));
  const std::int64_t most =
      std::max(balanced, std::min({busy / results, extent / 16, kMostChunks}));
  return even_chunks(extent, std::min((std::int64_t{1} << 19) / results, most), 1);
}

bool scatter_compares_all(std::int64_t n, std::int64_t k, std::int64_t d) {
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  const auto within = [&](std::int64_t limit, std::int64_t factor) {
    return factor == 0 ? kMost : limit / factor;
  };
  // n * k * d <= kMost, without the product.
  return k <= 1 || within(within(within(kMost, n), k), d) >= 1;
}

Shape Expr::shape() const { return lowering->values[static_cast<std::size_t>(id)].shape; }
DType Expr::dtype() const { return lowering->values[static_cast<std::size_t>(id)].dtype; }
Expr operator+(Expr a, Expr b) { return a.lowering->binary(ScalarOp::add, a, b); }
Expr operator-(Expr a, Expr b) { return a.lowering->binary(ScalarOp::sub, a, b); }
Expr operator*(Expr a, Expr b) { return a.lowering->binary(ScalarOp::mul, a, b); }
Expr operator/(Expr a, Expr b) { return a.lowering->binary(ScalarOp::div, a, b); }

Lowering::Lowering(const graph::Batch& batch, const DeviceEntry& entry)
    : wide_device_(!entry.device.is_cpu()), device_(&entry), batch_(&batch) {
  values.reserve(batch.nodes.size() * 4 + batch.leaves.size());
  for (std::size_t i = 0; i < batch.leaves.size(); ++i) {
    const Node& node = *batch.leaves[i].node;
    Value leaf{.kind = ValueKind::Leaf, .dtype = node.dtype, .shape = node.shape};
    leaf.number = static_cast<int>(i);
    leaf_values_[&node] = insert(std::move(leaf)).id;
  }
  node_values.assign(batch.nodes.size(), -1);
  count_readers();
  for (Node* node : batch.nodes) lower_node(*node);
  // Messages find an operation by the number of its site.
  if (static_cast<std::size_t>(site_) != batch.sites.size())
    throw std::logic_error("planner: sites of checked indices were not counted as recorded");
  lay_out_images();
  round_products(batch);
  turn_products(batch);
  turn_attentions(batch);
  fuse_epilogues(batch);
  place_parts(batch);
}

// Per value: whether somebody holds it.
std::vector<bool> Lowering::wanted_values(const graph::Batch& batch) const {
  std::vector<bool> wanted(values.size(), false);
  for (const Node* node : batch.nodes) {
    const int value = node_values[node->index];
    if (node->live && value >= 0) wanted[static_cast<std::size_t>(value)] = true;
  }
  return wanted;
}

// Per value: the values that read it, of those that are needed at all, and whoever holds it.
std::vector<int> Lowering::count_uses(const graph::Batch& batch) const {
  std::vector<int> uses(values.size(), 0);
  for (const Node* node : batch.nodes) {
    const int value = node_values[node->index];
    if (node->live && value >= 0) ++uses[static_cast<std::size_t>(value)];
  }
  for (std::size_t i = values.size(); i-- > 0;) {
    if (uses[i] == 0) continue;
    for (const int in : values[i].in) {
      if (in >= 0) ++uses[static_cast<std::size_t>(in)];
    }
  }
  return uses;
}

void Lowering::lower_node(Node& node) {
  node_ = &node;
  stage_ = 0;
  if (node.op == OpId::output) {
    const int result = results_.at(node.inputs[0])[static_cast<std::size_t>(node.attrs[0])];
    node_values[node.index] = cast({this, result}, node.dtype).id;
    return;
  }
  // Arguments are numbered as recording appended them: per node, per input.
  node_args_.assign(node.inputs_count, -1);
  for (std::uint32_t i = 0; i < node.inputs_count; ++i) {
    const Node& input = *node.inputs[i];
    if (input.state.load(std::memory_order_relaxed) == NodeState::Constant &&
        !graph::is_key_literal(input.value)) {
      node_args_[i] = arg_++;
    }
  }
  const graph::Op& op = graph::op_info(node.op);
  if (op.lower != nullptr) return op.lower(*this);

  const auto attrs = node.attr_span();
  switch (node.op) {
    case OpId::cast:
      return out(cast(in(0), node.dtype));
    case OpId::where:
      return out(where(in(0), in(1), in(2)));
    case OpId::iota:
      return out(cast(iota(node.shape, static_cast<int>(attrs[0])), node.dtype));
    case OpId::philox:
      return out(philox(in(0), in(1), node.shape, node.dtype));
    case OpId::reshape:
      return out(reshape(in(0), node.shape));
    case OpId::permute:
      return out(permute(in(0), attrs));
    case OpId::expand:
      return out(expand(in(0), node.shape));
    case OpId::shrink:
      return out(
          shrink(in(0), attrs.first(static_cast<std::size_t>(node.shape.rank())), node.shape));
    case OpId::stride: {
      const auto rank = static_cast<std::size_t>(node.shape.rank());
      return out(stride(in(0), attrs.first(rank), attrs.subspan(rank, rank), node.shape));
    }
    case OpId::unfold:
      return out(windows(in(0), attrs[0], attrs[1], attrs[2]));
    case OpId::pad: {
      const Expr inner = in(0), fill = in(1);
      const auto before = attrs.first(static_cast<std::size_t>(node.shape.rank()));
      if (at(fill).kind == ValueKind::Const)
        return out(pad(inner, before, node.shape, at(fill).constant));
      // Any other fill: pad a mask as well and choose.
      const Expr one = expand(constant(1, DType::boolean), inner.shape());
      const Expr inside = pad(one, before, node.shape, 0);
      return out(where(inside, pad(inner, before, node.shape, 0), fill));
    }
    case OpId::sum:
      return out(reduce(ReduceOp::Sum, in(0), attrs));
    case OpId::prod:
      return out(reduce(ReduceOp::Prod, in(0), attrs));
    case OpId::max:
      return out(reduce(ReduceOp::Max, in(0), attrs));
    case OpId::min:
      return out(reduce(ReduceOp::Min, in(0), attrs));
    case OpId::argmax:
      return out(reduce(ReduceOp::ArgMax, in(0), attrs));
    case OpId::argmin:
      return out(reduce(ReduceOp::ArgMin, in(0), attrs));
    case OpId::gather: {
      const Expr source = in(0);
      const Expr index = bounded(in(1), source.shape()[0], next_site());
      const bool nothing = node.shape.numel() == 0 && index.shape().numel() > 0;
      return out(nothing ? checked_nothing(index) : gather(source, index));
    }
    case OpId::matmul:
      return out(matmul(in(0), in(1), attrs[0] != 0, attrs[1] != 0, attrs[2] != 0));
    default:
      break;
  }
  const ScalarOp scalar = graph::scalar_op(node.op);
  if (node.inputs_count == 1) return out(unary(scalar, in(0)));
  out(binary(scalar, in(0), in(1)));
}

// Composed operations are computed in f32 where their operands are halves, and rounded once at the
// end.
Expr Lowering::in(int i) {
  const Expr operand = operand_of(i);
  const bool composed = graph::op_info(node_->op).lower != nullptr;
  return composed && is_half(operand.dtype()) ? cast(operand, DType::f32) : operand;
}

Expr Lowering::operand_of(int i) {
  const Node& input = *node_->inputs[i];
  if (input.state.load(std::memory_order_relaxed) == NodeState::Constant) {
    // A number beside halves is an f32: it is rounded with the result, not before. (One that is a
    // tensor of halves is a half already.)
    const DType dtype = is_half(input.dtype) ? DType::f32 : input.dtype;
    Expr number;
    if (const int arg = node_args_[static_cast<std::size_t>(i)]; arg >= 0) {
      Value value{.kind = ValueKind::Arg, .dtype = dtype};
      value.number = arg;
      number = insert(std::move(value));
    } else {
      number = constant(input.value, dtype);
    }
    if (input.shape.rank() > 0) number = cast(number, input.dtype);
    return expand(number, input.shape);
  }
  return {this, value_of(input)};
}

int Lowering::value_of(const Node& node) const {
  if (node.state.load(std::memory_order_relaxed) == NodeState::Constant) return -1;
  const auto leaf = leaf_values_.find(&node);
  return leaf != leaf_values_.end() ? leaf->second : node_values[node.index];
}

void Lowering::out(int number, Expr value) {
  if (graph::op_info(node_->op).lower != nullptr || number > 0) {
    auto& results = results_[node_];
    if (results.size() <= static_cast<std::size_t>(number))
      results.resize(static_cast<std::size_t>(number) + 1);
    results[static_cast<std::size_t>(number)] = value.id;
  }
  if (number == 0) node_values[node_->index] = cast(value, node_->dtype).id;
}

Expr Lowering::insert(Value value) {
  std::string key = merge_key(value);
  if (node_ != nullptr && value.in[0] >= 0) {
    value.epoch = node_->epoch;
    value.stage = stage_;
  }
  if (origin_ != nullptr && value.in[0] >= 0) {
    value.epoch = origin_->epoch;
    value.stage = origin_->stage;
  }
  put(key, &value.epoch, sizeof value.epoch);
  put(key, &value.stage, sizeof value.stage);
  if (const auto found = merged_.find(key); found != merged_.end()) {
    if (value.stored) values[static_cast<std::size_t>(found->second)].stored = true;
    return {this, found->second};
  }
  if (node_ != nullptr) value.label = graph::op_info(node_->op).name;
  if (origin_ != nullptr) value.label = origin_->label;
  const int id = static_cast<int>(values.size());
  values.push_back(std::move(value));
  merged_.emplace(std::move(key), id);
  return {this, id};
}

Expr Lowering::constant(double number, DType dtype) {
  Value value{.kind = ValueKind::Const, .dtype = dtype};
  value.constant = number;
  return insert(std::move(value));
}

Expr Lowering::size(std::int64_t number, DType dtype) {
  Value value{.kind = ValueKind::Size, .dtype = DType::i64};
  value.constant = static_cast<double>(number);
  return cast(insert(std::move(value)), dtype);
}

Expr Lowering::iota(const Shape& shape, int axis) {
  Value value{.kind = ValueKind::Iota, .dtype = DType::i64, .shape = shape};
  value.attrs = {axis};
  return insert(std::move(value));
}

Expr Lowering::philox(Expr seed, Expr offset, const Shape& shape, DType dtype,
                      std::int64_t multiplier, std::int64_t increment) {
  Value value{.kind = ValueKind::Philox, .dtype = dtype, .shape = shape};
  value.in = {seed.id, offset.id, -1};
  value.attrs = {multiplier, increment};
  return insert(std::move(value));
}

// Halves are storage: arithmetic is in f32, and the result is rounded once. (A bool or index stays
// as it is.)
Expr Lowering::in_f32(Expr result, DType dtype) {
  return result.dtype() == DType::f32 ? cast(result, dtype) : result;
}

Expr Lowering::unary(ScalarOp op, Expr a) {
  if (is_half(a.dtype())) return in_f32(unary(op, cast(a, DType::f32)), a.dtype());
  Value value{.kind = ValueKind::Scalar, .dtype = a.dtype(), .shape = a.shape(), .op = op};
  if (kernel::info(op).result == kernel::ScalarResult::Bool) value.dtype = DType::boolean;
  value.in[0] = a.id;
  return insert(std::move(value));
}

Expr Lowering::binary(ScalarOp op, Expr a, Expr b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  if (is_half(dtype)) return in_f32(binary(op, cast(a, DType::f32), cast(b, DType::f32)), dtype);
  a = cast(a, dtype);
  b = cast(b, dtype);
  const Shape shape = broadcast_shapes(kernel::info(op).name, a.shape(), b.shape());
  const Value &left = through_expand(values, a.id), &right = through_expand(values, b.id);
  if ((op == ScalarOp::mul && is_const(right, 1)) || (op == ScalarOp::div && is_const(right, 1)) ||
      (op == ScalarOp::sub && is_const(right, 0))) {
    return expand(a, shape);
  }
  if (op == ScalarOp::mul && is_const(left, 1)) return expand(b, shape);
  Value value{.kind = ValueKind::Scalar, .dtype = dtype, .shape = shape, .op = op};
  if (kernel::info(op).result == kernel::ScalarResult::Bool) value.dtype = DType::boolean;
  value.in = {expand(a, shape).id, expand(b, shape).id, -1};
  return insert(std::move(value));
}

Expr Lowering::where(Expr condition, Expr a, Expr b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  if (is_half(dtype))
    return in_f32(where(condition, cast(a, DType::f32), cast(b, DType::f32)), dtype);
  a = cast(a, dtype);
  b = cast(b, dtype);
  const Shape shape =
      broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  Value value{.kind = ValueKind::Scalar, .dtype = dtype, .shape = shape, .op = ScalarOp::where};
  value.in = {expand(condition, shape).id, expand(a, shape).id, expand(b, shape).id};
  return insert(std::move(value));
}

Expr Lowering::cast(Expr a, DType dtype) {
  if (a.dtype() == dtype) return a;
  if (at(a).kind == ValueKind::Const && is_floating(dtype)) return constant(at(a).constant, dtype);
  if (at(a).kind == ValueKind::Expand) {
    const Shape shape = a.shape();
    return expand(cast({this, at(a).in[0]}, dtype), shape);
  }
  Value value{.kind = ValueKind::Cast, .dtype = dtype, .shape = a.shape()};
  value.in[0] = a.id;
  return insert(std::move(value));
}

Expr Lowering::bounded(Expr a, std::int64_t high, int site) {
  Value value{.kind = ValueKind::Bounded, .dtype = a.dtype(), .shape = a.shape()};
  value.in[0] = a.id;
  value.attrs = {high};
  value.number = site;
  return insert(std::move(value));
}

Expr Lowering::reduce(ReduceOp op, Expr a, std::span<const std::int64_t> axes, bool keepdim) {
  const Shape full = a.shape();
  std::vector<bool> reduced(static_cast<std::size_t>(full.rank()), false);
  for (const std::int64_t axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  std::vector<std::int64_t> kept, with_ones;
  bool unit = true;
  for (int i = 0; i < full.rank(); ++i) {
    const bool gone = reduced[static_cast<std::size_t>(i)];
    if (!gone) kept.push_back(full[i]);
    if (gone && full[i] != 1) unit = false;
    with_ones.push_back(gone ? 1 : full[i]);
  }
  const Shape result = keepdim ? Shape(with_ones) : Shape(kept);
  const bool arg = is_arg(op);
  if (is_half(a.dtype())) {
    return in_f32(reduce(op, cast(a, DType::f32), axes, keepdim), arg ? DType::i64 : a.dtype());
  }
  // Over axes of size 1 (or none) there is nothing to reduce.
  if (unit) return arg ? expand(constant(0, DType::i64), result) : reshape(a, result);
  if (const Expr one = repeated_number(a); one.id >= 0 && full.numel() > 0)
    return expand(reduce_repeated(op, one, full.numel() / result.numel()), result);
  if (const Expr split = split_reduce(op, a, reduced); split.id >= 0) return reshape(split, result);
  if (const Expr split = split_apart(op, a, reduced); split.id >= 0) return reshape(split, result);
  Value value{
      .kind = ValueKind::Reduce, .dtype = arg ? DType::i64 : a.dtype(), .shape = Shape(kept)};
  value.reduce = op;
  value.in[0] = a.id;
  for (int i = 0; i < full.rank(); ++i) {
    if (reduced[static_cast<std::size_t>(i)]) value.attrs.push_back(i);
  }
  return reshape(insert(std::move(value)), result);
}

// The number that all elements are; none if they are more than a number repeated.
Expr Lowering::repeated_number(Expr a) {
  const Value* v = &through_expand(values, a.id);
  const Expr one{this, static_cast<int>(v - values.data())};
  while (v->kind == ValueKind::Cast) v = &through_expand(values, v->in[0]);
  const bool number = v->kind == ValueKind::Const || v->kind == ValueKind::Arg;
  return number && one.shape().numel() == 1 ? reshape(one, Shape{}) : Expr{};
}

// Of `count` times the same number: nothing is added up, however many they are.
Expr Lowering::reduce_repeated(ReduceOp op, Expr one, std::int64_t count) {
  if (is_arg(op)) return constant(0, DType::i64);
  if (op == ReduceOp::Max || op == ReduceOp::Min) return one;
  if (op == ReduceOp::Sum) return one * size(count, one.dtype());
  // Exponents may be rounded, their being odd may not.
  const Expr power =
      binary(ScalarOp::pow, unary(ScalarOp::abs, one), size(count - count % 2, one.dtype()));
  return count % 2 == 0 ? power : power * one;
}

// A long reduction to few results becomes two: chunks side by side, then their results. The number
// of chunks is a function of the extents, so the tree of additions is too.
Expr Lowering::split_reduce(ReduceOp op, Expr a, const std::vector<bool>& reduced) {
  const Shape full = a.shape();
  int first = 0, last = full.rank();
  while (!reduced[static_cast<std::size_t>(first)]) ++first;
  while (!reduced[static_cast<std::size_t>(last - 1)]) --last;
  std::int64_t before = 1, extent = 1, after = 1;
  for (int i = 0; i < full.rank(); ++i) {
    if (i >= first && i < last && !reduced[static_cast<std::size_t>(i)]) return {};
    (i < first ? before : i < last ? extent : after) *= full[i];
  }
  const std::int64_t results = before * after;
  if (results == 0) return {};
  std::int64_t chunks = reduction_chunks(extent, results, after == 1, wide_device_);
  if (chunks <= 1) return {};
  if (!wide_device_) chunks = even_chunks(extent, chunks, 1);
  std::int64_t length = (extent + chunks - 1) / chunks;
  if (wide_device_ && after == 1) {  // chunks start where vectors may
    length = (length + kChunkUnit - 1) / kChunkUnit * kChunkUnit;
    chunks = (extent + length - 1) / length;
  }
  Expr x = reshape(a, {before, extent, after});
  const std::int64_t none[] = {0, 0, 0};
  if (length * chunks != extent) {
    const std::optional<double> filler = identity(op, a.dtype());
    if (!filler) return {};
    x = pad(x, none, {before, length * chunks, after}, *filler);
  }
  x = reshape(x, {before, chunks, length, after});
  const auto insert_reduce = [&](ReduceOp of, Expr value, std::int64_t axis) {
    Value v{.kind = ValueKind::Reduce,
            .dtype = is_arg(of) ? DType::i64 : value.dtype(),
            .shape = value.shape().removed(static_cast<int>(axis))};
    v.reduce = of;
    v.in[0] = value.id;
    v.attrs = {axis};
    return insert(std::move(v));
  };
  if (!is_arg(op)) return insert_reduce(op, insert_reduce(op, x, 2), 1);
  // The first best chunk, and the position within it.
  const Expr values = insert_reduce(op == ReduceOp::ArgMax ? ReduceOp::Max : ReduceOp::Min, x, 2);
  const Expr within = insert_reduce(op, x, 2), best = insert_reduce(op, values, 1);
  const Expr chosen =
      binary(ScalarOp::eq, iota(values.shape(), 1), reshape(best, {before, 1, after}));
  const Expr position =
      insert_reduce(ReduceOp::Sum, where(chosen, within, constant(0, DType::i64)), 1);
  return best * size(length, DType::i64) + position;
}

// The same of axes that are not side by side, those of images around their channels.
Expr Lowering::split_apart(ReduceOp op, Expr a, const std::vector<bool>& reduced) {
  if (!wide_device_ || is_arg(op)) return {};
  const Shape full = a.shape();
  std::int64_t extent = 1, results = 1;
  int runs = 0;
  for (int i = 0; i < full.rank(); ++i) {
    const bool gone = reduced[static_cast<std::size_t>(i)];
    (gone ? extent : results) *= full[i];
    if (!gone || (i > 0 && reduced[static_cast<std::size_t>(i - 1)])) continue;
    if (full[i] == 1) return {};  // whoever put it there wants no more than one kernel
    ++runs;
  }
  if (runs < 2 || results == 0) return {};
  std::int64_t wanted = reduction_chunks(extent, results, false, wide_device_);
  if (wanted <= 1) return {};
  // All of the outer axes side by side, then parts of an inner one: views can be cut so, whatever
  // the order of their axes in memory.
  std::vector<std::int64_t> split, parts, kept, within;
  std::int64_t chunks = 1;
  for (int i = 0; i < full.rank(); ++i) {
    if (!reduced[static_cast<std::size_t>(i)]) {
      kept.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(full[i]);
      continue;
    }
    std::int64_t count = std::min(full[i], wanted);
    while (full[i] % count != 0) --count;
    wanted = (wanted + count - 1) / count;
    chunks *= count;
    if (count > 1) {
      parts.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(count);
    }
    if (count < full[i]) {
      within.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(full[i] / count);
    }
  }
  if (chunks == 1 || split.size() > kMaxRank) return {};
  std::vector<std::int64_t> order = parts;
  order.insert(order.end(), kept.begin(), kept.end());
  order.insert(order.end(), within.begin(), within.end());
  std::vector<std::int64_t> inner(within.size());
  std::iota(inner.begin(), inner.end(), static_cast<std::int64_t>(parts.size() + kept.size()));
  const Expr partial = reduce(op, permute(reshape(a, Shape(split)), order), inner, false);
  const std::int64_t outer[] = {0};
  return reduce(op, reshape(partial, {chunks, results}), outer, false);
}

Expr Lowering::reduce_segments(ReduceOp op, Expr a, std::int64_t axis, Expr bound) {
  Value value{.kind = ValueKind::Reduce,
              .dtype = a.dtype(),
              .shape = a.shape().removed(static_cast<int>(axis))};
  value.reduce = op;
  value.in = {a.id, expand(bound, value.shape).id, -1};
  value.attrs = {axis};
  return insert(std::move(value));
}

Expr Lowering::insert_scan(Expr a, std::int64_t axis, bool reverse, Expr start) {
  Value value{.kind = ValueKind::Scan, .dtype = a.dtype(), .shape = a.shape()};
  value.in = {a.id, start.id, -1};
  value.attrs = {axis, reverse};
  return insert(std::move(value));
}

// A long axis is cut into chunks as reductions are: the chunks' sums are scanned first, and every
// chunk starts from what lies before it.
Expr Lowering::scan(Expr a, std::int64_t axis, bool reverse) {
  const Shape full = a.shape();
  const std::int64_t extent = full[static_cast<int>(axis)];
  if (extent <= 1 || full.numel() == 0) return a;
  // One addition after the other loses a digit every hundred; f64 takes the CPU no longer.
  if (a.dtype() == DType::f32 && !wide_device_)
    return cast(scan(cast(a, DType::f64), axis, reverse), DType::f32);
  std::int64_t before = 1, after = 1;
  for (int i = 0; i < full.rank(); ++i) {
    if (i < axis) before *= full[i];
    if (i > axis) after *= full[i];
  }
  std::int64_t chunks = reduction_chunks(extent, before * after, after == 1, wide_device_);
  if (chunks <= 1) return insert_scan(a, axis, reverse, {});
  std::int64_t length = (extent + chunks - 1) / chunks;
  // Chunks that fit leave nothing to pad.
  for (std::int64_t other = length; other < 2 * length; ++other) {
    if (extent % other == 0) length = other;
  }
  chunks = (extent + length - 1) / length;
  const std::int64_t none[] = {0, 0, 0}, inner = 2;
  const std::int64_t first = reverse ? 1 : 0, later[] = {0, 1 - first, 0}, from[] = {0, first, 0};
  Expr x = reshape(a, {before, extent, after});
  x = pad(x, none, {before, chunks * length, after}, 0);
  x = reshape(x, {before, chunks, length, after});
  const Expr sums = reduce(ReduceOp::Sum, x, {&inner, 1});
  const Expr up_to = insert_scan(sums, 1, reverse, {});
  const Expr start =
      pad(shrink(up_to, from, {before, chunks - 1, after}), later, {before, chunks, after}, 0);
  const Expr all = reshape(insert_scan(x, 2, reverse, start), {before, chunks * length, after});
  return reshape(shrink(all, none, {before, extent, after}), full);
}

Expr Lowering::search(Expr keys, Expr wanted, std::int64_t offset, std::int64_t stride,
                      std::int64_t count) {
  Value value{.kind = ValueKind::Search, .dtype = DType::i32, .shape = wanted.shape()};
  value.in = {keys.id, wanted.id, -1};
  value.attrs = {offset, stride, count};
  return insert(std::move(value));
}

Expr Lowering::sort(Expr keys, std::int64_t count, bool descending, DType index) {
  Value value{.kind = ValueKind::Sort, .dtype = index, .shape = {keys.shape()[0], count}};
  value.in[0] = keys.id;
  value.attrs = {count, descending};
  return insert(std::move(value));
}

Expr Lowering::sorted_keys(Expr sort) {
  const Value& order = at(sort);
  Value value{.kind = ValueKind::StepResult,
              .dtype = values[static_cast<std::size_t>(order.in[0])].dtype,
              .shape = order.shape};
  value.in[0] = sort.id;
  return insert(std::move(value));
}

Expr Lowering::gather(Expr source, Expr index) {
  const Shape rows = index.shape(), from = source.shape();
  std::vector<std::int64_t> sizes(rows.begin(), rows.end());
  sizes.insert(sizes.end(), from.begin() + 1, from.end());
  Value value{.kind = ValueKind::Gather, .dtype = source.dtype(), .shape = Shape(sizes)};
  value.in = {source.id, index.id, -1};
  return insert(std::move(value));
}

// A kernel over no elements runs nothing, but a reduction it needs is a kernel before it. Twice the
// indices: a reduction of one element would be no reduction.
Expr Lowering::checked_nothing(Expr indices) {
  const std::int64_t axes[] = {0, 1}, count = indices.shape().numel();
  const Expr twice = expand(reshape(indices, {1, count}), {2, count});
  const Expr largest = reduce(ReduceOp::Max, twice, axes);
  return expand(cast(largest, node_->dtype), node_->shape);
}

Expr Lowering::stored(Expr a) {
  values[static_cast<std::size_t>(a.id)].stored = true;
  return a;
}

// The half that an f32 value was converted from; -1 if it was not.
int Lowering::half_source(Expr a) const {
  const Value& v = at(a);
  if (v.kind != ValueKind::Cast || v.dtype != DType::f32) return -1;
  return is_half(values[static_cast<std::size_t>(v.in[0])].dtype) ? v.in[0] : -1;
}

Expr Lowering::matmul(Expr a, Expr b, bool transpose_a, bool transpose_b, bool tf32) {
  if (is_half(a.dtype())) {
    return in_f32(matmul(cast(a, DType::f32), cast(b, DType::f32), transpose_a, transpose_b, tf32),
                  a.dtype());
  }
  const int rank = a.shape().rank();
  const std::int64_t m = a.shape()[rank - (transpose_a ? 1 : 2)],
                     k = a.shape()[rank - (transpose_a ? 2 : 1)];
  const std::int64_t n = b.shape()[rank - (transpose_b ? 2 : 1)];
  const std::int64_t batch = rank == 3 ? a.shape()[0] : 1;
  if (batch * m * n * k <= device_->backend.small_product(device_->index) ||
      is_integral(a.dtype())) {
    return small_matmul(a, b, transpose_a, transpose_b);
  }
  const Shape shape = rank == 3 ? Shape{batch, m, n} : Shape{m, n};
  Value value{.kind = ValueKind::Matmul, .dtype = a.dtype(), .shape = shape};
  value.in = {a.id, b.id, -1};
  // Halves that were made f32 for the product: it adds up in f32 anyway.
  const int half_a = half_source(a), half_b = half_source(b);
  if (half_a >= 0 && half_b >= 0) {
    const DType dtype = values[static_cast<std::size_t>(half_a)].dtype;
    if (dtype == values[static_cast<std::size_t>(half_b)].dtype && multiplies_halves(dtype)) {
      value.in = {half_a, half_b, -1};
    }
  }
  value.attrs = {transpose_a, transpose_b, tf32, 0};
  return insert(std::move(value));
}

// Rows times columns, summed: [batch, m, n, k] reduced over k.
Expr Lowering::small_matmul(Expr a, Expr b, bool transpose_a, bool transpose_b) {
  const int rank = a.shape().rank();
  const std::int64_t flip2[] = {1, 0}, flip3[] = {0, 2, 1};
  const std::span<const std::int64_t> flip =
      rank == 2 ? std::span<const std::int64_t>(flip2) : std::span<const std::int64_t>(flip3);
  if (transpose_a) a = permute(a, flip);   // [.., m, k]
  if (!transpose_b) b = permute(b, flip);  // [.., n, k]
  const Shape sa = a.shape(), sb = b.shape();
  const std::int64_t axis = rank;
  if (rank == 2) {
    const Expr rows = reshape(a, {sa[0], 1, sa[1]}), columns = reshape(b, {1, sb[0], sb[1]});
    return reduce(ReduceOp::Sum, rows * columns, {&axis, 1});
  }
  const Expr rows = reshape(a, {sa[0], sa[1], 1, sa[2]}),
             columns = reshape(b, {sb[0], 1, sb[1], sb[2]});
  return reduce(ReduceOp::Sum, rows * columns, {&axis, 1});
}

}  // namespace volta::plan
