// Conformance of slices, steps, reversed axes and windows.
#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

// element(index) maps an index of the result to an element of x.
template <class From>
Array taken(const Array& x, const Shape& shape, From from) {
  return made(shape, x.dtype, [&](const Index& i) { return at(x, from(i)); });
}

Array sliced(const Array& x, int axis, std::int64_t start, std::int64_t step, std::int64_t count) {
  return taken(x, x.shape.with(axis, count), [&](Index i) {
    i[static_cast<std::size_t>(axis)] = start + step * i[static_cast<std::size_t>(axis)];
    return i;
  });
}

TEST(Conformance, Slice) {
  const Array x = numbers({5, 7});
  const auto check = [&](int axis, std::optional<std::int64_t> start,
                         std::optional<std::int64_t> stop, std::int64_t step, std::int64_t first,
                         std::int64_t count) {
    SCOPED_TRACE(std::to_string(axis) + ", step " + std::to_string(step));
    expect_result({x}, [&](const auto& in) { return in[0].slice(axis, start, stop, step); },
                  sliced(x, axis, first, step, count), {});
  };
  check(1, {}, {}, 1, 0, 7);
  check(1, 1, 6, 2, 1, 3);
  check(1, {}, {}, 3, 0, 3);
  check(0, -2, {}, 1, 3, 2);
  check(0, {}, -1, 2, 0, 2);
  check(1, {}, {}, -1, 6, 7);
  check(1, 5, 0, -2, 5, 3);
  check(1, -2, {}, -3, 5, 2);
  check(0, 100, -100, -1, 4, 5);
  check(0, 3, 3, 1, 0, 0);
  check(0, 4, 1, 1, 0, 0);
  check(1, 6, {}, 5, 6, 1);
  check(1, 0, {}, std::int64_t{1} << 40, 0, 1);
  expect_result({numbers({0, 3})}, [](const auto& in) { return in[0].slice(0, {}, {}, -1); },
                numbers({0, 3}), {});
}

TEST(Conformance, Stride) {
  const Array x = numbers({5, 6, 4});
  expect_result({x}, [](const auto& in) { return in[0].stride({2, 1, 3}); },
                taken(x, {3, 6, 2}, [](const Index& i) { return Index{2 * i[0], i[1], 3 * i[2]}; }),
                {});
  expect_result({x}, [](const auto& in) { return in[0].stride({-2, 4, -3}); },
                taken(x, {3, 2, 2},
                      [](const Index& i) { return Index{4 - 2 * i[0], 4 * i[1], 3 - 3 * i[2]}; }),
                {});
  expect_result({x}, [](const auto& in) { return in[0].stride({1, 1, 1}); }, x, {});
  expect_result({Array({}, {3})},
                [](const auto& in) { return in[0].stride(std::span<const std::int64_t>()); },
                Array({}, {3}), {});
  expect_result({numbers({0})}, [](const auto& in) { return in[0].stride({-3}); }, numbers({0}),
                {});
}

TEST(Conformance, Flip) {
  const Array x = numbers({3, 5, 7}), long_line = numbers({5003});
  expect_result({x}, [](const auto& in) { return in[0].flip(1); }, sliced(x, 1, 4, -1, 5), {});
  expect_result({x}, [](const auto& in) { return in[0].flip({0, -1}); },
                sliced(sliced(x, 0, 2, -1, 3), 2, 6, -1, 7), {});
  expect_result(
      {long_line}, [](const auto& in) { return in[0].flip(0) + in[0]; },
      combined(sliced(long_line, 0, 5002, -1, 5003), long_line,
               [](double a, double b) { return a + b; }),
      exact_in(DType::f32));
  for (const DType dtype : {DType::boolean, DType::u8, DType::i64, DType::f16}) {
    if (!has(dtype) || (!thorough() && dtype != DType::f16)) continue;
    const Array i = integers({4, 9}, 0, 1, dtype);
    expect_result({i}, [](const auto& in) { return in[0].flip(1); }, sliced(i, 1, 8, -1, 9), {});
  }
}

TEST(Conformance, ShrinkSeveralAxes) {
  const Array x = numbers({5, 7, 3});
  expect_result({x}, [](const auto& in) { return in[0].shrink({{1, 4}, {0, 7}, {2, 3}}); },
                narrowed(narrowed(x, 0, 1, 3), 2, 2, 1), {});
  expect_result({x}, [](const auto& in) { return in[0].shrink({{2, 2}, {0, 7}, {0, 3}}); },
                numbers({0, 7, 3}), {});
}

Array windows_of(const Array& x, int axis, std::int64_t size, std::int64_t step) {
  const Shape outer = x.shape.with(axis, (x.shape[axis] - size) / step + 1);
  return taken(x, outer.inserted(x.shape.rank(), size), [&](Index i) {
    i[static_cast<std::size_t>(axis)] = step * i[static_cast<std::size_t>(axis)] + i.back();
    i.pop_back();
    return i;
  });
}

TEST(Conformance, Unfold) {
  const Array x = numbers({4, 9, 3}), line = numbers({10});
  for (const auto& [size, step] :
       std::vector<std::pair<int, int>>{{3, 1}, {2, 2}, {4, 3}, {1, 4}, {9, 1}}) {
    expect_result({x}, [&](const auto& in) { return in[0].unfold(1, size, step); },
                  windows_of(x, 1, size, step), {});
  }
  expect_result(
      {line}, [](const auto& in) { return in[0].unfold(-1, 4, 2).sum(1); },
      folded(windows_of(line, 0, 4, 2), {1}, false, total), close_in(DType::f32));
}

// The elements behind a view are read in the view's order.
TEST(Conformance, StepsThroughOtherViews) {
  const Array x = numbers({6, 8});
  expect_result({x}, [](const auto& in) { return in[0].t().flip(0).slice(1, 1, {}, 2); },
                sliced(sliced(permuted(x, {1, 0}), 0, 7, -1, 8), 1, 1, 2, 3), {});
  expect_result(
      {x}, [](const auto& in) { return in[0].flip({0, 1}).reshape({48}) * 2; },
      mapped(sliced(Array({48}, x.values), 0, 47, -1, 48), [](double v) { return 2 * v; }), {});
  Array turned = sliced(Array({48}, x.values), 0, 47, -1, 48);
  turned.shape = Shape{8, 6};
  expect_result({x}, [](const auto& in) { return (in[0] + 0).flip({0, 1}).reshape({8, 6}); },
                turned, {});
  expect_result(
      {x}, [](const auto& in) { return in[0].square().slice(1, {}, {}, 2).sum(1); },
      folded(mapped(sliced(x, 1, 0, 2, 4), [](double v) { return v * v; }), {1}, false, total),
      close_in(DType::f32));
  const Array row = numbers({1, 8});
  expect_result({row},
                [](const auto& in) { return in[0].expand({3, 8}).flip(1).slice(0, {}, {}, 2); },
                sliced(expanded(row, {2, 8}), 1, 7, -1, 8), {});
  // Products read strided rows in place and copy all other operands.
  const Array a = numbers({8, 6}), b = numbers({6, 5});
  for (const int step : {2, -1}) {
    const Array rows = sliced(a, 0, step > 0 ? 0 : 7, step, step > 0 ? 4 : 8);
    expect_result(
        {a, b}, [&](const auto& in) { return in[0].slice(0, {}, {}, step).matmul(in[1]); },
        made({rows.shape[0], 5}, DType::f32,
             [&](const Index& i) {
               double sum = 0;
               for (std::int64_t k = 0; k < 6; ++k)
                 sum += at(rows, Index{i[0], k}) * at(b, Index{k, i[1]});
               return sum;
             }),
        close_in(DType::f32));
  }
}

TEST(Conformance, FlippedOntoItself) {
  Tensor x = upload(numbers({1000}));
  const Array before = download(x);
  for (int i = 0; i < 3; ++i) {
    x.copy_(x.flip(0));
    x.eval();
  }
  expect_close(download(x), sliced(before, 0, 999, -1, 1000), {});
}

TEST(Conformance, SlicingGradients) {
  const Array x = numbers({5, 6});
  const auto check = [&](const auto& view) {
    expect_gradients({x}, [&](const auto& in) { return view(in[0]).square() * 0.5; });
  };
  check([](const Tensor& t) { return t.stride({-2, 3}); });
  check([](const Tensor& t) { return t.unfold(0, 3, 2); });
  check([](const Tensor& t) { return t.unfold(1, 3, 1); });
  if (!thorough()) return;
  check([](const Tensor& t) { return t.slice(1, {}, {}, 2); });
  check([](const Tensor& t) { return t.slice(1, 1, {}, -1); });
  check([](const Tensor& t) { return t.slice(0, 1, {}, 3); });
  check([](const Tensor& t) { return t.slice(0, 4, {}, -3); });
  check([](const Tensor& t) { return t.flip({0, 1}); });
  check([](const Tensor& t) { return t.shrink({{1, 4}, {2, 6}}); });
  check([](const Tensor& t) { return t.unfold(1, 2, 3); });
  expect_gradients({numbers({2, 9, 2})},
                   [](const auto& in) { return in[0].unfold(1, 5, 2).square(); });
}

// Gradients of gradients: extracting and adding up windows are each other's gradients.
TEST(Conformance, SecondGradientsOfSlicing) {
  const auto check = [](const auto& view) {
    expect_gradients({numbers({3, 5})}, [&](const auto& in) {
      const EnableGrad on;
      const Tensor x = in[0].requires_grad() ? in[0] : in[0].clone().set_requires_grad();
      const Tensor part = view(x);
      return grad((part.square() * part).sum(), x, {.create_graph = true});
    });
  };
  check([](const Tensor& t) { return t.unfold(1, 3, 2); });
  if (!thorough()) return;
  check([](const Tensor& t) { return t.unfold(1, 3, 1); });
  check([](const Tensor& t) { return t.slice(1, {}, {}, -2); });
}

}  // namespace
}  // namespace volta::conformance
