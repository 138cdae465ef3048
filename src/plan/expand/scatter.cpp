// Scattering rows in primitives. A stable sort of the ids brings the rows of each id together in
// their order; each result then sums its segment, or takes its last row. There are no atomic
// operations, so the order of additions, and which row is written last, depend only on the ids.
#include "plan/expand/scatter.h"

#include <algorithm>
#include <bit>

#include "plan/calls/sort.h"
#include "plan/expand/rules.h"

namespace volta::plan {

bool scatter_compares_all(std::int64_t n, std::int64_t k, std::int64_t d) {
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  const auto within = [&](std::int64_t limit, std::int64_t factor) {
    return factor == 0 ? kMost : limit / factor;
  };
  // Tests n * k * d <= kMost without overflow.
  return k <= 1 || within(within(within(kMost, n), k), d) >= 1;
}

}  // namespace volta::plan

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

namespace {

// With at least this many ids, segments are summed in chunks, because most rows may have the same
// id.
constexpr std::int64_t kChunkedIds = 512;

// Chooses chunks such that neither a chunk nor a list of chunks is long: their lengths are similar.
Extent chunk_rows(Extent ids) {
  return plan::evaluated(
      [](std::span<const std::int64_t> count) {
        std::int64_t rows = 32;
        while (rows * rows < count[0]) rows *= 2;
        return rows;
      },
      {ids});
}

Expr below(Lowering& l, Expr a, Expr b) { return l.binary(ScalarOp::lt, a, b); }

// Whether every result is compared with every id, as scatter_compares_all decides.
bool compares_all(Extent n, Extent k, Extent d) {
  return plan::evaluated(
             [](std::span<const std::int64_t> a) -> std::int64_t {
               return plan::scatter_compares_all(a[0], a[1], a[2]);
             },
             {n, k, d}) != 0;
}

// Reshapes a value per result to broadcast over [results, segment, columns].
Expr per_row(Lowering& l, Expr x) { return l.reshape(x, {x.shape()[0], 1}); }
Expr per_element(Lowering& l, Expr x) {
  const Shape shape = x.shape();
  return l.reshape(x, {shape[0], shape.rank() > 1 ? shape[1] : Extent(1), 1});
}
Expr per_column(Lowering& l, Expr x) { return l.reshape(x, {x.shape()[0], 1}); }

DType sum_dtype(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

Expr i32(Lowering& l, Extent number) { return l.size(number, DType::i32); }

// Compares every result with every id. This is no step of its own, so it fuses with its
// surroundings.
Expr compare_all(Lowering& l, Expr rows, Expr ids, Extent n) {
  const Extent k = rows.shape()[0], d = rows.shape()[1];
  const std::int64_t order[] = {1, 0}, axis = 2;
  const Expr wide = l.cast(rows, sum_dtype(rows.dtype()));
  const Expr columns = l.reshape(l.permute(wide, order), {1, d, k});
  const Expr hit =
      l.binary(ScalarOp::eq, l.iota({n, 1, k}, 0), l.cast(l.reshape(ids, {1, 1, k}), DType::i64));
  const Expr zero = l.constant(0, wide.dtype());
  return l.reduce(ReduceOp::Sum, l.where(hit, columns, zero), {&axis, 1});
}

class Segments {
 public:
  // The ids [k] are in [0, n).
  Segments(Lowering& l, Expr ids, Extent n, int site)
      : l_(l), n_(n), k_(ids.shape()[0]), site_(site) {
    const DType key = n < INT32_MAX ? DType::i32 : DType::i64;
    const Expr keys = l.reshape(l.cast(ids, key), {1, k_});
    order_ = plan::sort(l, keys, k_, false, DType::i32);
    sorted_ = l.reshape(plan::sorted_keys(l, order_), {k_});
    order_ = l.reshape(order_, {k_});
    id_ = l.cast(l.iota({n}, 0), key);
    next_id_ = id_ + l.constant(1, key);
    begin_ = l.search(sorted_, id_, 0, 1, k_);
    end_ = l.search(sorted_, next_id_, 0, 1, k_);
  }

  // The sum of rows [k, d] for each id.
  Expr sum(Expr rows) {
    rows_ = rows;
    return k_ < kChunkedIds ? sum_rows() : sum_chunks();
  }

  // The last position of each id, [n]; -1 if it does not occur.
  Expr last() {
    const Expr one = l_.constant(1, DType::i32), zero = l_.constant(0, DType::i32);
    const Expr end = l_.bounded(l_.binary(ScalarOp::maximum, end_ - one, zero), k_, site_);
    return l_.where(below(l_, begin_, end_), l_.gather(order_, end), l_.constant(-1, DType::i32));
  }

 private:
  // Halves are summed in f32.
  Expr rows_at(Expr numbers) {
    const Expr rows = l_.gather(rows_, l_.bounded(numbers, k_, site_));
    return l_.cast(rows, sum_dtype(rows.dtype()));
  }

  // The row whose id is at `position` in the sorted order: [..., d].
  Expr row_at(Expr position) {
    const Expr last = i32(l_, k_ - 1);
    const Expr inside = l_.bounded(l_.binary(ScalarOp::minimum, position, last), k_, site_);
    return rows_at(l_.gather(order_, inside));
  }

  Expr add_up(Expr values, Expr inside, Expr length) {
    const Expr zero = l_.constant(0, values.dtype());
    return l_.reduce_segments(ReduceOp::Sum, l_.where(per_element(l_, inside), values, zero), 1,
                              per_column(l_, length));
  }

  Expr sum_rows() {
    const Expr length = end_ - begin_;
    const Expr j = l_.cast(l_.iota({n_, k_}, 1), DType::i32);
    return add_up(row_at(per_row(l_, begin_) + j), below(l_, j, per_row(l_, length)), length);
  }

  // Chunks that lie within one segment are summed first. A segment then adds the rows before its
  // first whole chunk, the chunks, and the rows after its last whole chunk.
  Expr sum_chunks() {
    const Extent chunk = chunk_rows(k_), chunks = k_ / chunk;
    const Expr sums = chunk_sums(chunk, chunks);
    const Expr first = l_.search(sorted_, id_, 0, chunk, chunks);
    const Expr last = l_.search(sorted_, next_id_, chunk - 1, chunk, chunks);
    const Expr zero = l_.constant(0, DType::i32);
    const Expr whole = l_.binary(ScalarOp::maximum, last - first, zero);
    const Expr skipped = whole * i32(l_, chunk - 1);
    const Expr length = end_ - begin_ - skipped;
    const Expr head = first * i32(l_, chunk) - begin_;
    const Expr j = l_.cast(l_.iota({n_, k_}, 1), DType::i32);
    const Expr behind = l_.binary(ScalarOp::le, per_row(l_, head + whole), j);
    const Expr reached = l_.binary(ScalarOp::le, per_row(l_, head), j);
    const Expr in_chunk = below(l_, behind, reached);
    const Expr position = per_row(l_, begin_) + j + l_.where(behind, per_row(l_, skipped), zero);
    const Expr number = l_.where(in_chunk, per_row(l_, first - head) + j, zero);
    const Expr chunk_sum = l_.gather(sums, l_.bounded(number, chunks, site_));
    const Expr value = l_.where(per_element(l_, in_chunk), chunk_sum, row_at(position));
    return add_up(value, below(l_, j, per_row(l_, length)), length);
  }

  // The sums of chunks that have one id only, [chunks, d]; other chunks are not computed.
  Expr chunk_sums(Extent chunk, Extent chunks) {
    const Extent start[] = {0, 0}, end[] = {0, chunk - 1}, none[] = {0};
    const auto in_chunks = [&](Expr x) {
      return l_.reshape(l_.shrink(x, none, {chunks * chunk}), {chunks, chunk});
    };
    const Expr ids = in_chunks(sorted_);
    const Expr one_id = l_.reshape(l_.binary(ScalarOp::eq, l_.shrink(ids, start, {chunks, 1}),
                                             l_.shrink(ids, end, {chunks, 1})),
                                   {chunks});
    const Expr values = rows_at(in_chunks(order_));
    const Expr length = l_.where(one_id, i32(l_, chunk), l_.constant(0, DType::i32));
    return add_up(values, l_.expand(per_row(l_, one_id), {chunks, chunk}), length);
  }

  Lowering& l_;
  Expr rows_;
  const Extent n_, k_;
  const int site_;
  Expr order_, sorted_, id_, next_id_, begin_, end_;
};

}  // namespace

Expr sum_rows_at(Lowering& l, Expr rows, Expr ids, Extent n, int site) {
  const Extent k = rows.shape()[0], d = rows.shape()[1];
  if (compares_all(n, k, d)) return compare_all(l, rows, ids, n);
  return Segments(l, ids, n, site).sum(rows);
}

Expr last_at(Lowering& l, Expr ids, Extent n, int site) {
  const std::int64_t axis = 1;
  const Extent k = ids.shape()[0];
  if (!compares_all(n, k, 1)) return Segments(l, ids, n, site).last();
  const Expr hit =
      l.binary(ScalarOp::eq, l.iota({n, k}, 0), l.cast(l.reshape(ids, {1, k}), DType::i64));
  const Expr place =
      l.where(hit, l.cast(l.iota({n, k}, 1), DType::i32), l.constant(-1, DType::i32));
  if (k == 0) return l.expand(l.constant(-1, DType::i32), {n});
  return l.reduce(ReduceOp::Max, place, {&axis, 1});
}

// Adds rows [k, ...] into zeros [n, ...] at ids [k]: each result sums the rows with its id, in
// order.
void scatter_rows(Lowering& l) {
  const Expr ids = l.in(1);
  const Extent n = l.open_attrs()[0], k = ids.shape().numel();
  const Extent d = l.shape().numel() / plan::greater(n, 1);
  const Expr rows = l.reshape(l.stored_in(0), {k, d});
  const int site = l.next_site();
  const Expr inside = l.bounded(l.reshape(ids, {k}), n, site);
  if (d == 0 && k > 0) return l.out(l.checked_nothing(inside));
  l.out(l.reshape(sum_rows_at(l, rows, inside, n, site), l.shape()));
}

}  // namespace volta::graph::expand
