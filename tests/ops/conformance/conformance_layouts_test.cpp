// Conformance of operations along an axis over layouts and dtypes, with one body for all of them.
#include "ops/conformance/conformance_layouts.h"

namespace volta::conformance {
namespace {

using Fold = double (*)(const std::vector<double>&);
// Maps a row to the row that an operation along an axis makes of it.
using Rewrite = std::vector<double> (*)(const std::vector<double>&);

struct Along {
  const char* name;
  Tensor (*op)(const Tensor&, std::int64_t);
  Fold fold;        // this one, or
  Rewrite rewrite;  // this one is set; the other is null
  bool floats_only = true;
  bool exact = false;
  DType (*result)(DType) = [](DType dtype) { return dtype; };
};
void PrintTo(const Along& op, std::ostream* out) { *out << op.name; }

using Row = std::vector<double>;

double mean_of(const Row& row) { return total(row) / static_cast<double>(row.size()); }
double product_of(const Row& row) {
  return std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>());
}
double smallest(const Row& row) { return *std::min_element(row.begin(), row.end()); }
double variance_of(const Row& row) {
  double squares = 0;
  for (const double value : row) squares += (value - mean_of(row)) * (value - mean_of(row));
  return squares / static_cast<double>(row.size() - 1);
}
double exponentials_of(const Row& row) {
  double sum = 0;
  for (const double value : row) sum += std::exp(value - largest(row));
  return std::log(sum) + largest(row);
}
template <class Each>
Row each_of(const Row& row, Each each) {
  Row result;
  for (const double value : row) result.push_back(each(value));
  return result;
}
DType sum_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::i64; }
DType place_dtype(DType) { return DType::i64; }
DType truth_dtype(DType) { return DType::boolean; }

#define VOLTA_ALONG(name) \
  #name, [](const Tensor& x, std::int64_t axis) { return volta::name(x, axis); }

const Along kAlong[] = {
    {VOLTA_ALONG(sum), total, nullptr, false, false, sum_dtype},
    {VOLTA_ALONG(mean), mean_of, nullptr},
    {VOLTA_ALONG(prod), product_of, nullptr, false, false, sum_dtype},
    {VOLTA_ALONG(max), largest, nullptr, false, true},
    {VOLTA_ALONG(min), smallest, nullptr, false, true},
    {VOLTA_ALONG(any),
     [](const Row& row) -> double {
       return total(each_of(row, [](double x) { return x == 0 ? 0.0 : 1.0; })) > 0;
     },
     nullptr, false, true, truth_dtype},
    {VOLTA_ALONG(all),
     [](const Row& row) -> double { return std::count(row.begin(), row.end(), 0.0) == 0; }, nullptr,
     false, true, truth_dtype},
    {VOLTA_ALONG(var), variance_of, nullptr},
    {VOLTA_ALONG(std), [](const Row& row) { return std::sqrt(variance_of(row)); }, nullptr},
    {"norm", [](const Tensor& x, std::int64_t axis) { return norm(x, 2, axis); },
     [](const Row& row) {
       return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
     },
     nullptr},
    {VOLTA_ALONG(logsumexp), exponentials_of, nullptr},
    {VOLTA_ALONG(argmax),
     [](const Row& row) {
       return static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
     },
     nullptr, false, true, place_dtype},
    {VOLTA_ALONG(argmin),
     [](const Row& row) {
       return static_cast<double>(std::min_element(row.begin(), row.end()) - row.begin());
     },
     nullptr, false, true, place_dtype},
    {VOLTA_ALONG(softmax), nullptr,
     [](const Row& row) {
       return each_of(row, [&](double x) { return std::exp(x - exponentials_of(row)); });
     }},
    {VOLTA_ALONG(log_softmax), nullptr,
     [](const Row& row) {
       return each_of(row, [&](double x) { return x - exponentials_of(row); });
     }},
    {VOLTA_ALONG(cumsum), nullptr,
     [](const Row& row) {
       Row sums(row.size());
       std::partial_sum(row.begin(), row.end(), sums.begin());
       return sums;
     },
     false, false, sum_dtype},
    {"sort", [](const Tensor& x, std::int64_t axis) { return sort(x, axis).values; }, nullptr,
     [](const Row& row) {
       Row sorted = row;
       std::sort(sorted.begin(), sorted.end());
       return sorted;
     },
     false, true},
    {"argsort", [](const Tensor& x, std::int64_t axis) { return argsort(x, axis); }, nullptr,
     [](const Row& row) {
       Row places(row.size());
       std::iota(places.begin(), places.end(), 0.0);
       std::sort(places.begin(), places.end(), [&](double a, double b) {
         const double x = row[static_cast<std::size_t>(a)], y = row[static_cast<std::size_t>(b)];
         return x < y || (x == y && a < b);
       });
       return places;
     },
     false, true, place_dtype},
    {"flip", [](const Tensor& x, std::int64_t axis) { return x.flip(axis); }, nullptr,
     [](const Row& row) { return Row(row.rbegin(), row.rend()); }, false, true},
    {"roll", [](const Tensor& x, std::int64_t axis) { return x.roll(2, axis); }, nullptr,
     [](const Row& row) {
       Row turned = row;
       std::rotate(turned.begin(), turned.end() - 2, turned.end());
       return turned;
     },
     false, true},
};
#undef VOLTA_ALONG

class AlongConformance : public ::testing::TestWithParam<Along> {
 protected:
  static Array expected(const Array& x, int axis) {
    const Along& op = GetParam();
    Array result;
    if (op.fold != nullptr) {
      result = folded(x, {axis}, false, op.fold);
    } else {
      result = x;
      for (std::int64_t n = 0; n < x.shape[1 - axis]; ++n) {
        const auto place = [&](std::int64_t k) {
          return static_cast<std::size_t>(axis == 0 ? k * x.shape[1] + n : n * x.shape[1] + k);
        };
        Row row;
        for (std::int64_t k = 0; k < x.shape[axis]; ++k) row.push_back(x.values[place(k)]);
        row = op.rewrite(row);
        for (std::int64_t k = 0; k < x.shape[axis]; ++k)
          result.values[place(k)] = row[static_cast<std::size_t>(k)];
      }
    }
    result.dtype = op.result(x.dtype);
    return result;
  }

  static void check(const Array& x) {
    const Along& op = GetParam();
    for (const Layout& layout : kLayouts) {
      for (const int axis : {0, 1}) {
        SCOPED_TRACE(std::string(layout.name) + ", axis " + std::to_string(axis));
        expect_result(
            {x}, [&](const auto& in) { return op.op(layout.of_tensor(in[0]), axis); },
            expected(layout.of_array(x), axis),
            op.exact || !is_floating(x.dtype) ? Tolerance{} : close_in(x.dtype, 4));
      }
    }
  }
};

TEST_P(AlongConformance, LayoutsAndDtypes) {
  if (!thorough()) GTEST_SKIP() << "golden values and the tests of each operation cover it";
  for (const DType dtype : kFloats) {
    if (has(dtype)) check(numbers({6, 9}, -2, 2, dtype));
  }
  if (GetParam().floats_only) return;
  // Products of nine elements do not overflow.
  for (const DType dtype : kIntegers)
    check(integers({6, 9}, dtype == DType::u8 ? 0 : -3, 3, dtype));
}

INSTANTIATE_TEST_SUITE_P(Ops, AlongConformance, ::testing::ValuesIn(kAlong),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace volta::conformance
