// Sorts rows: by dedicated kernels on GPUs, by a function on the CPU.
#include "plan/calls/sort.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "backend/common/sort_launches.h"
#include "plan/lower/index_map.h"

namespace volta::plan {
namespace {

struct SortAttributes {
  Extent count = 0;
  bool descending = false;

  std::vector<Extent> pack() const { return {count, descending}; }
  static SortAttributes of(const Value& value) {
    return {.count = value.attrs[0], .descending = value.attrs[1] != 0};
  }
};

class SortKind final : public Call {
 public:
  const char* name() const override { return "sort"; }
  std::size_t alternative() const override { return Step(SortStep{}).index(); }
  bool writes_all_results() const override { return false; }

  CallDraft draft(const StoredValues& plan, const Value& value, std::size_t results,
                  bool massively_parallel) const override {
    const Value& keys = plan.values[static_cast<std::size_t>(value.in[0])];
    const SortAttributes attributes = SortAttributes::of(value);
    SortStep s;
    s.dtype = keys.dtype;
    s.index_dtype = value.dtype;
    s.descending = attributes.descending;
    s.has_values = results > 1;
    s.label = value.label;
    CallDraft draft;
    draft.reads = {reshape_base(plan.values, value.in[0])};
    draft.sizes = {keys.shape[0], keys.shape[1], attributes.count};
    draft.step = std::move(s);
    resize(draft.step, hints(draft.sizes));
    if (massively_parallel) draft.scratch_bytes = scratch_bytes(draft, keys.dtype);
    return draft;
  }
  bool resize(Step& step, std::span<const std::int64_t> sizes) const override {
    auto& s = std::get<SortStep>(step);
    s.rows = sizes[0];
    s.length = sizes[1];
    s.count = sizes[2];
    return true;
  }

  bool asks_support(const Step&) const override { return false; }

  CallText text(const Step& step) const override {
    const auto& s = std::get<SortStep>(step);
    return {.what = fmt::format("{} {}", s.label, to_string(volta::Shape{s.rows, s.length})),
            .schedule = "rows"};
  }

  StepCost cost(const Step& step, std::span<const CallBuffer>,
                std::span<const CallBuffer>) const override {
    const auto& s = std::get<SortStep>(step);
    const auto keys = static_cast<std::uint64_t>(s.rows * s.length);
    const auto found = static_cast<std::uint64_t>(s.rows * s.count);
    const std::size_t each = size_of(s.index_dtype) + (s.has_values ? size_of(s.dtype) : 0);
    return {.bytes_read = keys * size_of(s.dtype),
            .bytes_written = found * each,
            .operations = keys * static_cast<std::uint64_t>(
                                     std::bit_width(static_cast<std::uint64_t>(s.length)))};
  }

 private:
  static Extent scratch_bytes(const CallDraft& draft, DType dtype) {
    return evaluated(
        [](std::span<const std::int64_t> a) {
          SortStep step;
          step.rows = a[0];
          step.length = a[1];
          step.count = a[2];
          step.dtype = static_cast<DType>(a[3]);
          return static_cast<std::int64_t>(sort_scratch_bytes(step));
        },
        {draft.sizes[0], draft.sizes[1], draft.sizes[2], static_cast<std::int64_t>(dtype)});
  }
};

}  // namespace

const Call& sort_call() {
  static const SortKind call;
  return call;
}

Expr sort(Lowering& lowering, Expr keys, Extent count, bool descending, DType index) {
  Value value{.kind = ValueKind::Call, .dtype = index, .shape = {keys.shape()[0], count}};
  value.call = &sort_call();
  value.in[0] = keys.id;
  value.attrs = SortAttributes{count, descending}.pack();
  return lowering.insert(std::move(value));
}

Expr sorted_keys(Lowering& lowering, Expr sort) {
  const Expr keys{&lowering, lowering.at(sort).in[0]};
  return further_result(lowering, sort, 1, keys.dtype(), sort.shape());
}

}  // namespace volta::plan
