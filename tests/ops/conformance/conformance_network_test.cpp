// Conformance of products, embedding, normalisation, dropout and losses.
#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

// ---- Products.

Array product_of(const Array& first, const Array& second) {
  Array a = first, b = second;
  if (a.shape.rank() == 1) a.shape = Shape{1, a.shape[0]};
  if (b.shape.rank() == 1) b.shape = Shape{b.shape[0], 1};
  const int ra = a.shape.rank(), rb = b.shape.rank();
  const std::int64_t m = a.shape[ra - 2], k = a.shape[ra - 1], n = b.shape[rb - 1];
  const auto batch_of = [](const Shape& s) {
    return Shape(s.sizes().first(static_cast<std::size_t>(s.rank() - 2)));
  };
  const Shape batch = joined(batch_of(a.shape), batch_of(b.shape));
  Index sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), {m, n});
  Array result = made(Shape(sizes), a.dtype, [&](const Index& i) {
    Index left = i, right = i;
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      left[left.size() - 1] = j;
      right[right.size() - 2] = j;
      sum += at(a, left) * at(b, right);
    }
    return sum;
  });
  Index shown(batch.begin(), batch.end());
  if (first.shape.rank() > 1) shown.push_back(m);
  if (second.shape.rank() > 1) shown.push_back(n);
  result.shape = Shape(shown);
  return result;
}

const Function kProduct = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };

void expect_product(const Array& a, const Array& b) {
  SCOPED_TRACE(to_string(a.shape) + " x " + to_string(b.shape));
  expect_result({a, b}, kProduct, product_of(a, b), close_in(a.dtype, 4));
}

TEST(Conformance, Matmul) {
  struct Pair {
    Shape a, b;
  };
  for (const Pair& p : std::initializer_list<Pair>{{{7}, {7}},
                                                   {{5, 7}, {7}},
                                                   {{7}, {7, 3}},
                                                   {{5, 7}, {7, 3}},
                                                   {{1, 1}, {1, 1}},
                                                   {{1, 9}, {9, 1}},
                                                   {{9, 1}, {1, 9}},
                                                   {{33, 65}, {65, 31}},
                                                   {{4, 5, 7}, {7, 3}},
                                                   {{4, 5, 7}, {4, 7, 3}},
                                                   {{5, 7}, {4, 7, 3}},
                                                   {{4, 1, 5, 7}, {3, 7, 2}},
                                                   {{4, 5, 7}, {7}},
                                                   {{7}, {4, 7, 3}},
                                                   {{1, 5, 7}, {6, 7, 3}},
                                                   {{6, 5, 7}, {1, 7, 3}},
                                                   // Beyond the size from which the library is
                                                   // used.
                                                   {{64, 65}, {65, 66}},
                                                   {{128, 300}, {300, 70}},
                                                   {{3, 40, 50}, {3, 50, 60}},
                                                   {{3, 40, 50}, {50, 60}},
                                                   {{2, 1, 40, 50}, {3, 50, 60}},
                                                   {{1, 5000}, {5000, 40}},
                                                   {{40, 5000}, {5000}}}) {
    expect_product(numbers(p.a, -1, 1), numbers(p.b, -1, 1, DType::f32, 0.71));
  }
}

TEST(Conformance, MatmulOfNothing) {
  expect_product(numbers({0, 4}), numbers({4, 3}));
  expect_product(numbers({3, 4}), numbers({4, 0}));
  expect_product(numbers({3, 0}), numbers({0, 4}));  // zeros
  expect_product(numbers({0, 3, 4}), numbers({0, 4, 2}));
  expect_product(numbers({0}), numbers({0}));
}

TEST(Conformance, MatmulOfViews) {
  for (const std::int64_t n : {6, 70}) {  // a kernel, then the library
    const Array a = numbers({n, n + 2}, -1, 1), b = numbers({n, n + 2}, -1, 1, DType::f32, 0.71);
    const Tolerance tolerance = close_in(DType::f32, 4);
    expect_result(
        {a, b}, [](const auto& in) { return in[0].matmul(in[1].t()); },
        product_of(a, permuted(b, {1, 0})), tolerance);
    expect_result(
        {a, b}, [](const auto& in) { return in[0].t().matmul(in[1]); },
        product_of(permuted(a, {1, 0}), b), tolerance);
    expect_result(
        {a, b},
        [](const auto& in) { return in[0].narrow(1, 1, 4).matmul(in[1].narrow(1, 2, 4).t()); },
        product_of(narrowed(a, 1, 1, 4), permuted(narrowed(b, 1, 2, 4), {1, 0})), tolerance);
    const Array row = numbers({1, n}, -1, 1);
    expect_result(
        {row, b}, [&](const auto& in) { return in[0].expand({n, n}).matmul(in[1]); },
        product_of(expanded(row, {n, n}), b), tolerance);
    const Array batch = numbers({3, n, n + 2}, -1, 1);
    expect_result(
        {batch}, [](const auto& in) { return in[0].matmul(in[0].transpose(1, 2)); },
        product_of(batch, permuted(batch, {0, 2, 1})), tolerance);
    expect_result(
        {batch},
        [](const auto& in) { return in[0].permute({1, 0, 2}).matmul(in[0].permute({1, 2, 0})); },
        product_of(permuted(batch, {1, 0, 2}), permuted(batch, {1, 2, 0})), tolerance);
    // Operands that are computed, and results that are used further.
    expect_result(
        {a, b}, [](const auto& in) { return (in[0] * 2).matmul((in[1] + 1).t()).relu(); },
        mapped(product_of(mapped(a, [](double v) { return v * 2; }),
                          permuted(mapped(b, [](double v) { return v + 1; }), {1, 0})),
               [](double v) { return std::max(v, 0.0); }),
        close_in(DType::f32, 40));
  }
}

TEST(Conformance, MatmulOfOtherDtypes) {
  if (has(DType::f64)) {
    for (const std::int64_t n : {5, 60}) {
      expect_product(numbers({n, n + 3}, -1, 1, DType::f64),
                     numbers({n + 3, n}, -1, 1, DType::f64, 0.71));
    }
  }
  for (const DType dtype : {DType::i32, DType::i64}) {
    for (const std::int64_t n : {50, 5}) {
      if (n == 5 && !thorough()) continue;
      expect_product(integers({n, n + 3}, -9, 9, dtype), integers({n + 3, n}, -9, 9, dtype, 2));
    }
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (!has(dtype)) continue;
    for (const std::int64_t n : {50, 5}) {
      if (n == 5 && !thorough()) continue;
      const Array a = integers({n, n}, -2, 2, dtype), b = integers({n, n}, -2, 2, dtype, 2);
      const Array sums = product_of(a, b);
      Array expected = sums;
      for (double& value : expected.values) value = in_dtype(value, dtype);
      expect_result({a, b}, kProduct, expected, exact_in(dtype));
    }
  }
}

TEST(Conformance, MatmulCarriesNanAndInfinity) {
  for (const std::int64_t n : {4, 50}) {
    Array a = numbers({n, n}, 1, 2), b = numbers({n, n}, 1, 2);
    a.values[0] = kNan;
    a.values[static_cast<std::size_t>(n)] = kInf;
    expect_product(a, b);
  }
}

TEST(Conformance, MatmulGradients) {
  struct Pair {
    Shape a, b;
  };
  std::vector<Pair> pairs{{{2, 3}, {3, 4}}, {{2, 1, 2, 3}, {2, 3, 2}}};
  if (thorough()) {
    pairs.insert(pairs.end(), {{{3}, {3}},
                               {{2, 3}, {3}},
                               {{3}, {3, 2}},
                               {{2, 2, 3}, {3, 2}},
                               {{2, 2, 3}, {2, 3, 2}},
                               {{2, 3}, {2, 3, 2}}});
  }
  for (const Pair& p : pairs) {
    SCOPED_TRACE(to_string(p.a) + " x " + to_string(p.b));
    expect_gradients({numbers(p.a), numbers(p.b, -2, 2, DType::f32, 0.71)}, kProduct);
  }
  expect_gradients({numbers({3, 2}), numbers({4, 3})},
                   [](const auto& in) { return in[0].t().matmul(in[1].t()); });
}

// Gradients of products that the library computes, against products of the reference.
TEST(Conformance, LargeMatmulGradients) {
  const Array a = numbers({50, 60}, -1, 1), b = numbers({60, 40}, -1, 1, DType::f32, 0.71),
              g = numbers({50, 40}, -1, 1);
  Tensor x = upload(a, true), y = upload(b, true);
  x.matmul(y).backward(upload(g));
  expect_close(download(x.grad()), product_of(g, permuted(b, {1, 0})), close_in(DType::f32, 4));
  expect_close(download(y.grad()), product_of(permuted(a, {1, 0}), g), close_in(DType::f32, 4));
  Tensor z = upload(b, true), w = upload(a, true);
  z.t().matmul(w.t()).backward(upload(permuted(g, {1, 0})));
  expect_close(download(z.grad()), product_of(permuted(a, {1, 0}), g), close_in(DType::f32, 4));
  expect_close(download(w.grad()), product_of(g, permuted(b, {1, 0})), close_in(DType::f32, 4));
}

TEST(Conformance, Linear) {
  const auto reference = [](const Array& x, const Array& w, const Array* bias) {
    Array y = product_of(x, permuted(w, {1, 0}));
    return bias == nullptr ? y : combined(y, *bias, [](double a, double b) { return a + b; });
  };
  struct Sizes {
    Shape x;
    std::int64_t out;
  };
  for (const Sizes& s : std::initializer_list<Sizes>{{{4, 2}, 8},
                                                     {{2}, 8},
                                                     {{3, 4, 2}, 8},
                                                     {{1, 2}, 1},
                                                     {{130, 50}, 70},
                                                     {{5, 26, 50}, 70},
                                                     {{0, 2}, 8}}) {
    const Array x = numbers(s.x, -1, 1),
                w = numbers({s.out, s.x[s.x.rank() - 1]}, -1, 1, DType::f32, 0.2),
                b = numbers({s.out}, -1, 1, DType::f32, 0.6);
    expect_result(
        {x, w, b}, [](const auto& in) { return linear(in[0], in[1], in[2]); }, reference(x, w, &b),
        close_in(DType::f32, 4));
    expect_result(
        {x, w}, [](const auto& in) { return linear(in[0], in[1]); }, reference(x, w, nullptr),
        close_in(DType::f32, 4));
  }
}

TEST(Conformance, LinearGradients) {
  expect_gradients({numbers({3, 2}), numbers({4, 2}), numbers({4})},
                   [](const auto& in) { return linear(in[0], in[1], in[2]); });
  expect_gradients({numbers({2, 2, 2}), numbers({3, 2})},
                   [](const auto& in) { return linear(in[0], in[1]); });
  const Array x = numbers({130, 50}, -1, 1), w = numbers({70, 50}, -1, 1, DType::f32, 0.2),
              b = numbers({70}, -1, 1), g = numbers({130, 70}, -1, 1, DType::f32, 0.4);
  Tensor tx = upload(x, true), tw = upload(w, true), tb = upload(b, true);
  linear(tx, tw, tb).backward(upload(g));
  expect_close(download(tx.grad()), product_of(g, w), close_in(DType::f32, 4));
  expect_close(download(tw.grad()), product_of(permuted(g, {1, 0}), x), close_in(DType::f32, 4));
  expect_close(download(tb.grad()), folded(g, {0}, false, total), close_in(DType::f32, 4));
}

// ---- Embedding.

Array rows_of(const Array& weight, const Array& ids) {
  return made(ids.shape.inserted(ids.shape.rank(), weight.shape[1]), weight.dtype, [&](Index i) {
    const std::int64_t column = i.back();
    i.pop_back();
    return at(weight, Index{static_cast<std::int64_t>(at(ids, i)), column});
  });
}

TEST(Conformance, Embedding) {
  const Array weight = numbers({11, 5});
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{3, 4}, Shape{1001}}) {
    for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
      if (!thorough() && dtype != DType::i64 && shape != Shape{7}) continue;
      const Array ids = integers(shape, 0, 10, dtype);
      expect_result({weight, ids}, [](const auto& in) { return embedding(in[0], in[1]); },
                    rows_of(weight, ids), {});
    }
  }
  const Array ids = integers({3, 4}, 0, 4, DType::i64);
  expect_result({weight, ids}, [](const auto& in) { return embedding(in[0].t(), in[1].t()) * 2; },
                mapped(rows_of(permuted(weight, {1, 0}), permuted(ids, {1, 0})),
                       [](double v) { return v * 2; }),
                {});
}

TEST(Conformance, EmbeddingGradient) {
  const Tensor ids = upload(Array({2, 3}, {4, 0, 4, 1, 4, 0}, DType::i64));
  expect_gradients({numbers({5, 2})},
                   [&](const auto& in) { return embedding(in[0], ids).square(); });
  // Many rows that are each used often.
  const Array weight = numbers({11, 5}), many = integers({1001}, 0, 9, DType::i64),
              g = numbers({1001, 5}, -1, 1);
  Tensor w = upload(weight, true);
  embedding(w, upload(many)).backward(upload(g));
  const Array expected = made({11, 5}, DType::f32, [&](const Index& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 1001; ++k) {
      if (many.values[static_cast<std::size_t>(k)] == static_cast<double>(i[0]))
        sum += at(g, Index{k, i[1]});
    }
    return sum;
  });
  expect_close(download(w.grad()), expected, close_in(DType::f32, 10));
}

// ---- Normalisation.

Array normalised(const Array& x, int axes, double eps) {
  std::vector<int> last;
  for (int i = x.shape.rank() - axes; i < x.shape.rank(); ++i) last.push_back(i);
  const auto mean = [](const std::vector<double>& v) {
    return total(v) / static_cast<double>(v.size());
  };
  const Array centred =
      combined(x, folded(x, last, true, mean), [](double a, double b) { return a - b; });
  const Array variance = folded(mapped(centred, [](double v) { return v * v; }), last, true, mean);
  return combined(centred, variance, [&](double d, double v) { return d / std::sqrt(v + eps); });
}

TEST(Conformance, LayerNorm) {
  struct Sizes {
    Shape x, normalized;
  };
  for (const Sizes& s : std::initializer_list<Sizes>{{{4, 7}, {7}},
                                                     {{7}, {7}},
                                                     {{2, 3, 5}, {3, 5}},
                                                     {{2, 3, 5}, {5}},
                                                     {{3, 1000}, {1000}},
                                                     {{2, 5000}, {5000}},
                                                     {{0, 7}, {7}},
                                                     {{300, 5}, {5}}}) {
    SCOPED_TRACE(to_string(s.x));
    const Array x = numbers(s.x, 3, 5), w = numbers(s.normalized, 0.5, 2),
                b = numbers(s.normalized, -1, 1);
    const Array plain = normalised(x, s.normalized.rank(), 1e-5);
    const auto times = [](double a, double c) { return a * c; };
    const auto plus = [](double a, double c) { return a + c; };
    // With means of 4 and deviations of 0.6, the difference loses a digit.
    const Tolerance tolerance{2e-5, 1e-5};
    expect_result(
        {x, w, b}, [&](const auto& in) { return layer_norm(in[0], s.normalized, in[1], in[2]); },
        combined(combined(plain, w, times), b, plus), tolerance);
    if (!thorough() && s.x != Shape{4, 7}) continue;
    expect_result(
        {x, w}, [&](const auto& in) { return layer_norm(in[0], s.normalized, in[1]); },
        combined(plain, w, times), tolerance);
    expect_result(
        {x}, [&](const auto& in) { return layer_norm(in[0], s.normalized); }, plain, tolerance);
  }
  const Array x = numbers({4, 7});
  expect_result(
      {x}, [](const auto& in) { return layer_norm(in[0], {7}, {}, {}, 0.5); },
      normalised(x, 1, 0.5), close_in(DType::f32));
  expect_result(
      {x}, [](const auto& in) { return layer_norm(in[0].t(), {4}); },
      normalised(permuted(x, {1, 0}), 1, 1e-5), close_in(DType::f32));
}

TEST(Conformance, LayerNormGradients) {
  expect_gradients({numbers({3, 4}), numbers({4}, 0.5, 2), numbers({4})},
                   [](const auto& in) { return layer_norm(in[0], {4}, in[1], in[2]); });
  expect_gradients({numbers({2, 2, 3}), numbers({2, 3}, 0.5, 2)},
                   [](const auto& in) { return layer_norm(in[0], {2, 3}, in[1]); });
  if (thorough())
    expect_gradients({numbers({3, 4})}, [](const auto& in) { return layer_norm(in[0], {4}); });
}

// ---- Dropout.

TEST(Conformance, Dropout) {
  const Array x = numbers({100'003}, 1, 2);
  manual_seed(12);
  const Array y = run({x}, [](const auto& in) { return dropout(in[0], 0.3); });
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    if (y.values[i] == 0) {
      ++zeros;
    } else {
      ASSERT_NEAR(y.values[i], x.values[i] / 0.7, 1e-6 * x.values[i] / 0.7);
    }
  }
  EXPECT_NEAR(static_cast<double>(zeros) / 100'003, 0.3, 0.0075);
  manual_seed(12);
  EXPECT_EQ(run({x}, [](const auto& in) { return dropout(in[0], 0.3); }).values, y.values);
  EXPECT_NE(run({x}, [](const auto& in) { return dropout(in[0], 0.3); }).values, y.values);
  EXPECT_EQ(run({x}, [](const auto& in) { return dropout(in[0], 0.3, false); }).values, x.values);
  EXPECT_EQ(run({x}, [](const auto& in) { return dropout(in[0], 0); }).values, x.values);
  EXPECT_EQ(run({x}, [](const auto& in) { return dropout(in[0], 1); }).values,
            std::vector<double>(100'003, 0));
  EXPECT_EQ(run({numbers({0})}, [](const auto& in) { return dropout(in[0], 0.5); }).values.size(),
            0u);
}

TEST(Conformance, DropoutIsTheSameOnEveryDevice) {
  const Array x = numbers({1001}, 1, 2);
  const auto draw = [&](Device device) {
    manual_seed(13);
    return dropout(from_vector(x.values, {.dtype = DType::f32, .device = device}), 0.4)
        .to_vector<float>();
  };
  EXPECT_EQ(draw(test_device()), draw(Device::cpu()));
}

TEST(Conformance, DropoutGradient) {
  expect_gradients({numbers({3, 5})}, [](const auto& in) {
    manual_seed(14);
    return dropout(in[0] * in[0], 0.4);
  });
}

// ---- Losses.

TEST(Conformance, MseLoss) {
  for (const Shape& shape : {Shape{}, Shape{4, 1}, Shape{5, 13}, Shape{100'003}}) {
    if (!thorough() && shape == Shape{4, 1}) continue;
    const Array a = numbers(shape), b = numbers(shape, -2, 2, DType::f32, 0.7);
    const Array squares = combined(a, b, [](double x, double y) { return (x - y) * (x - y); });
    const double sum = total(squares.values);
    const auto check = [&](Reduction reduction, const Array& expected) {
      expect_result(
          {a, b}, [&](const auto& in) { return mse_loss(in[0], in[1], {.reduction = reduction}); },
          expected, close_in(DType::f32));
    };
    check(Reduction::none, squares);
    if (thorough() || shape.rank() == 1) check(Reduction::sum, Array({}, {sum}));
    check(Reduction::mean, Array({}, {sum / static_cast<double>(shape.numel())}));
  }
  const Array whole = integers({4}, 0, 3, DType::i64);
  expect_result(
      {numbers({4}), whole},
      [](const auto& in) { return mse_loss(in[0], in[1], {.reduction = Reduction::none}); },
      combined(numbers({4}), whole, [](double x, double y) { return (x - y) * (x - y); }),
      close_in(DType::f32));
  expect_result({numbers({0}), numbers({0})}, [](const auto& in) { return mse_loss(in[0], in[1]); },
                Array({}, {kNan}), {});
}

Array entropy_of(const Array& logits, const Array& labels) {
  return made({logits.shape[0]}, logits.dtype, [&](const Index& i) {
    double top = -kInf, sum = 0;
    for (std::int64_t c = 0; c < logits.shape[1]; ++c)
      top = std::max(top, at(logits, Index{i[0], c}));
    for (std::int64_t c = 0; c < logits.shape[1]; ++c)
      sum += std::exp(at(logits, Index{i[0], c}) - top);
    return std::log(sum) + top - at(logits, Index{i[0], static_cast<std::int64_t>(at(labels, i))});
  });
}

TEST(Conformance, CrossEntropy) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5}, Shape{64, 10}, Shape{7, 3000}}) {
    if (!thorough() && shape.numel() == 1) continue;
    for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
      const Array logits = numbers(shape, -9, 9),
                  labels =
                      integers({shape[0]}, 0,
                               static_cast<int>(std::min<std::int64_t>(shape[1] - 1, 200)), dtype);
      const Array each = entropy_of(logits, labels);
      const double sum = total(each.values);
      const auto check = [&](Reduction reduction, const Array& expected) {
        if (!thorough() && (dtype != DType::i64 || reduction == Reduction::sum) &&
            shape != Shape{3, 5})
          return;
        if (!thorough() && dtype != DType::i64 && reduction != Reduction::mean) return;
        expect_result(
            {logits, labels},
            [&](const auto& in) { return cross_entropy(in[0], in[1], {.reduction = reduction}); },
            expected, close_in(DType::f32, 10));
      };
      check(Reduction::none, each);
      check(Reduction::sum, Array({}, {sum}));
      check(Reduction::mean, Array({}, {sum / static_cast<double>(shape[0])}));
    }
  }
  // Large logits do not overflow, and a masked class costs nothing.
  const Array wild({2, 3}, {1e4, 0, -1e4, 1, -kInf, 2}), labels({2}, {1, 0}, DType::i64);
  expect_result(
      {wild, labels},
      [](const auto& in) { return cross_entropy(in[0], in[1], {.reduction = Reduction::none}); },
      entropy_of(wild, labels), close_in(DType::f32));
}

TEST(Conformance, LossGradients) {
  const Tensor labels = upload(Array({3}, {2, 0, 3}, DType::i64));
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    if (reduction != Reduction::mean && !thorough()) continue;
    expect_gradients(
        {numbers({3, 4}), numbers({3, 4}, -2, 2, DType::f32, 0.7)},
        [&](const auto& in) { return mse_loss(in[0], in[1], {.reduction = reduction}); });
    expect_gradients({numbers({3, 4})}, [&](const auto& in) {
      return cross_entropy(in[0], labels, {.reduction = reduction});
    });
  }
}

// ---- Several operations at once, as in networks.

TEST(Conformance, AttentionByHand) {
  const Array q = numbers({2, 3, 4}), k = numbers({2, 5, 4}, -2, 2, DType::f32, 0.3),
              v = numbers({2, 5, 3}, -2, 2, DType::f32, 0.6);
  const Array scores =
      mapped(product_of(q, permuted(k, {0, 2, 1})), [](double s) { return s / 2; });
  const Array weights = [&] {
    const Array e = mapped(scores, [](double s) { return std::exp(s); });
    return combined(e, folded(e, {2}, true, total), [](double a, double b) { return a / b; });
  }();
  const Function f = [](const auto& in) {
    return softmax(in[0].matmul(in[1].transpose(1, 2)) / 2, -1).matmul(in[2]);
  };
  expect_result({q, k, v}, f, product_of(weights, v), close_in(DType::f32, 4));
  if (thorough()) expect_gradients({q, k, v}, f);
}

TEST(Conformance, ATransformerBlockByHand) {
  if (!thorough()) GTEST_SKIP() << "its parts are covered";
  expect_gradients({numbers({2, 3, 4}), numbers({4}, 0.5, 2), numbers({4}), numbers({6, 4}),
                    numbers({6}), numbers({4, 6})},
                   [](const auto& in) {
                     const Tensor h = layer_norm(in[0], {4}, in[1], in[2]);
                     return in[0] + linear(linear(h, in[3], in[4]).gelu(), in[5]);
                   });
}

}  // namespace
}  // namespace volta::conformance
