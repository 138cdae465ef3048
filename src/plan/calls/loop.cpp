// Loops as calls, and the bodies of their iterations.
#include "plan/calls/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "plan/lower/index_map.h"

namespace volta::plan {
namespace {

std::int64_t iterations_of(const LoopStep& step) {
  std::int64_t count = 0;
  for (const LoopPart& part : step.parts) count += part.count;
  return count;
}

class LoopKind final : public Call {
 public:
  const char* name() const override { return "loop"; }
  std::size_t alternative() const override { return Step(LoopStep{}).index(); }
  bool writes_all_results() const override { return false; }

  // The parts of the step are those of the bodies, which plan/loops.cpp drafts.
  CallDraft draft(const StoredValues& plan, const Value& value, std::size_t, bool) const override {
    LoopStep step;
    step.label = value.label;
    CallDraft draft;
    for (const ValueId in : value.in) {
      if (!in.is_none()) draft.reads.push_back(reshape_base(plan.values, in));
    }
    draft.step = std::move(step);
    draft.loop = value.number;
    return draft;
  }
  bool asks_support(const Step&) const override { return false; }

  CallText text(const Step& step) const override {
    const auto& loop = std::get<LoopStep>(step);
    return {.what = loop.label, .schedule = fmt::format("{} iterations", iterations_of(loop))};
  }

  StepCost cost(const Step& step, std::span<const CallBuffer>,
                std::span<const CallBuffer>) const override {
    StepCost all;
    for (const LoopPart& part : std::get<LoopStep>(step).parts) {
      const auto count = static_cast<std::uint64_t>(part.count);
      for (const StepCost& one : part.costs) {
        all.bytes_read += count * one.bytes_read;
        all.bytes_written += count * one.bytes_written;
        all.operations += count * one.operations;
      }
    }
    return all;
  }
};

Extent bytes_of(const Shape& shape, DType dtype) { return shape.numel() * size_of(dtype); }

}  // namespace

const Call& loop_call() {
  static const LoopKind call;
  return call;
}

bool is_loop(const Value& value) { return value.call == &loop_call(); }

std::vector<Expr> loop(Lowering& lowering, Extent length, LoopedPart part, std::string text,
                       std::vector<Expr> operands, const std::vector<LoopResult>& results) {
  Value value{.kind = ValueKind::Call, .dtype = results[0].first, .shape = results[0].second};
  value.call = &loop_call();
  std::vector<ValueId> ids;
  for (const Expr& operand : operands) ids.push_back(operand.id);
  value.in = Operands(std::move(ids));
  value.number =
      lowering.add_loop(std::make_shared<Loop>(Loop{length, {std::move(part)}, std::move(text)}));
  std::vector<Expr> all{lowering.insert(std::move(value))};
  for (std::size_t k = 1; k < results.size(); ++k) {
    all.push_back(
        further_result(lowering, all[0], static_cast<int>(k), results[k].first, results[k].second));
  }
  return all;
}

int Loop::operands() const {
  int count = 0;
  for (const LoopedPart& part : parts) count += part.operands;
  return count;
}

int Loop::results() const {
  int count = 0;
  for (const LoopedPart& part : parts) count += part.results;
  return count;
}

LoopBodies Loop::bodies(const std::vector<bool>& wanted, const DeviceEntry& device,
                        Expansion (*expansion_of)(graph::OpId)) const {
  static const graph::Batch batch;
  static const BatchView nothing(batch);
  const BatchSizes sizes(nothing);
  LoopBodies all;
  const bool is_one = length == 1, are_two = length == 2;
  const std::size_t count = is_one ? 1 : are_two ? 2 : 3;
  all.bodies.resize(count);
  for (std::size_t b = 0; b < count; ++b) {
    LoopBody& body = all.bodies[b];
    const bool last = b + 1 == count;
    body.first = b == 0 ? Extent(0) : last ? length - 1 : Extent(1);
    body.count = b == 0 || last ? Extent(1) : length - 2;
    body.graph.view = &nothing;
    body.graph.device = &device;
    Lowering lowering(body.graph, sizes, expansion_of);
    BodyWriter writer(lowering, body, all, wanted, b == 0, last);
    for (const LoopedPart& part : parts) {
      writer.part_ = &part;
      lowering.set_origin({.label = part.label});
      part.write(writer);
      writer.operand_ += part.operands;
      writer.result_ += part.results;
      writer.carried_ += part.carried;
    }
  }
  return all;
}

Expr BodyWriter::leaf(LoopSlice slice, const Shape& shape, DType dtype) {
  Value value{.kind = ValueKind::Leaf, .dtype = dtype, .shape = shape};
  const auto same = [&](const LoopSlice& other) {
    return other.kind == slice.kind && other.number == slice.number &&
           other.strides.size() == slice.strides.size() && is_same(other.start, slice.start) &&
           is_same(other.stride, slice.stride);
  };
  const auto known = std::find_if(body_.leaves.begin(), body_.leaves.end(), same);
  value.number = static_cast<int>(known - body_.leaves.begin());
  if (known == body_.leaves.end()) body_.leaves.push_back(slice);
  return l.insert(std::move(value));
}

LoopSlice BodyWriter::slice(LoopSlice::Kind kind, int number, const Walked& walked,
                            const Shape& shape, DType dtype, int ahead) const {
  const Extent step = bytes_of(shape, dtype);
  if (walked.backwards) return {kind, number, (walked.length - 1 - ahead) * step, -step};
  return {kind, number, ahead * step, step};
}

Expr BodyWriter::step_of(int operand, const Walked& walked, const Shape& shape, DType dtype,
                         int ahead) {
  return leaf(slice(LoopSlice::Kind::Operand, operand_ + operand, walked, shape, dtype, ahead),
              shape, dtype);
}

Expr BodyWriter::step_of_turned(int operand, const Walked& walked, const Shape& shape,
                                DType dtype) {
  const Extent row = shape[1] * size_of(dtype);
  LoopSlice slice{LoopSlice::Kind::Operand, operand_ + operand};
  slice.start = walked.backwards ? (walked.length - 1) * row : Extent(0);
  slice.stride = walked.backwards ? -row : row;
  slice.strides = {walked.length * shape[1], 1};
  return leaf(std::move(slice), shape, dtype);
}

Expr BodyWriter::whole(int operand, const Shape& shape, DType dtype) {
  return leaf({LoopSlice::Kind::Operand, operand_ + operand}, shape, dtype);
}

Expr BodyWriter::previous(int result, const Walked& walked, const Shape& shape, DType dtype) {
  return leaf(slice(LoopSlice::Kind::Result, result_ + result, walked, shape, dtype, -1), shape,
              dtype);
}

Expr BodyWriter::carried(int number, const Shape& shape, DType dtype) {
  return leaf({LoopSlice::Kind::Carried, carried_ + number}, shape, dtype);
}

bool BodyWriter::wants(int result) const {
  const int number = result_ + result;
  return wanted_[static_cast<std::size_t>(number)];
}

// Each result is a value of its own, although two of them may be equal.
void BodyWriter::result(LoopSlice slice, Expr value) {
  const ValueKind kind = l.at(value).kind;
  const bool is_own = kind == ValueKind::Join || kind == ValueKind::Placed;
  body_.graph.results.push_back(is_own ? value.id : l.placed(value).id);
  body_.results.push_back(slice);
}

void BodyWriter::write(int result, const Walked& walked, Expr value) {
  this->result(
      slice(LoopSlice::Kind::Result, result_ + result, walked, value.shape(), value.dtype(), 0),
      value);
}

void BodyWriter::write_whole(int result, Expr value) {
  this->result({LoopSlice::Kind::Result, result_ + result}, value);
}

void BodyWriter::carry(int number, Expr value) {
  const int in_loop = carried_ + number;
  const auto place = static_cast<std::size_t>(in_loop);
  if (loop_.carried.size() <= place) loop_.carried.resize(place + 1, 0);
  loop_.carried[place] = bytes_of(value.shape(), value.dtype());
  this->result({LoopSlice::Kind::Carried, in_loop}, value);
}

}  // namespace volta::plan
