// Conformance of products: every combination of vectors, matrices and batches, einsum, and their
// cost: one product each, without copies of operands that are already in memory.
#include <map>

#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

// torch.matmul by its definition: [..., m, k] x [..., k, n] with broadcast leading axes.
Array multiplied(const Array& first, const Array& second) {
  Array a = first, b = second;
  if (a.shape.rank() == 1) a.shape = a.shape.inserted(0, 1);
  if (b.shape.rank() == 1) b.shape = b.shape.inserted(1, 1);
  const int ra = a.shape.rank(), rb = b.shape.rank();
  const auto leading = [](const Shape& s) {
    return Shape(s.sizes().first(static_cast<std::size_t>(s.rank() - 2)));
  };
  const Shape batch = joined(leading(a.shape), leading(b.shape));
  const std::int64_t k = a.shape[ra - 1];
  Index sizes(batch.begin(), batch.end());
  sizes.push_back(a.shape[ra - 2]);
  sizes.push_back(b.shape[rb - 1]);
  Array result = made(Shape(sizes), a.dtype, [&](const Index& i) {
    double sum = 0;
    for (std::int64_t q = 0; q < k; ++q) {
      Index left = i, right = i;
      left[left.size() - 1] = q;
      right[right.size() - 2] = q;
      sum += at(a, std::span(left).last(std::max<std::size_t>(left.size(), 2))) *
             at(b, std::span(right).last(std::max<std::size_t>(right.size(), 2)));
    }
    return sum;
  });
  if (second.shape.rank() == 1) result.shape = result.shape.removed(result.shape.rank() - 1);
  if (first.shape.rank() == 1) {
    const int axis = result.shape.rank() - (second.shape.rank() == 1 ? 1 : 2);
    result.shape = result.shape.removed(axis);
  }
  return result;
}

Array some(const Shape& shape, DType dtype, double start) {
  return is_floating(dtype) ? numbers(shape, -1, 1, dtype, start)
                            : integers(shape, 0, 3, dtype, static_cast<int>(start * 100));
}

const Function kMatmul = [](const auto& in) { return matmul(in[0], in[1]); };

TEST(ConformanceProduct, EveryCombinationOfRanks) {
  const std::pair<Shape, Shape> cases[] = {
      {{5}, {5}},
      {{5}, {5, 3}},
      {{4, 5}, {5}},
      {{4, 5}, {5, 3}},
      {{2, 4, 5}, {5}},
      {{5}, {2, 5, 3}},
      {{2, 4, 5}, {5, 3}},
      {{4, 5}, {2, 5, 3}},
      {{2, 4, 5}, {2, 5, 3}},
      {{2, 4, 5}, {1, 5, 3}},
      {{1, 4, 5}, {2, 5, 3}},
      {{3, 2, 4, 5}, {2, 5, 3}},
      {{3, 1, 4, 5}, {2, 5, 3}},
      {{3, 2, 4, 5}, {3, 1, 5, 3}},
      {{3, 1, 4, 5}, {1, 2, 5, 3}},
      {{3, 2, 4, 5}, {1, 1, 5, 3}},
      {{2, 3, 2, 1, 5}, {3, 1, 5, 2}},
      {{3, 2, 4, 5}, {5}},
      {{1, 1}, {1, 1}},
      {{0, 5}, {5, 3}},
      {{4, 0}, {0, 3}},
      {{2, 4, 0}, {0, 3}},
      {{0, 4, 5}, {0, 5, 3}},
  };
  std::size_t number = 0;
  for (const auto& [a, b] : cases) {
    if (number++ % 4 != 0 && !thorough()) continue;
    SCOPED_TRACE(to_string(a) + to_string(b));
    const Array x = some(a, DType::f32, 0.3), y = some(b, DType::f32, 0.6);
    expect_result({x, y}, kMatmul, multiplied(x, y), close_in(DType::f32));
  }
}

TEST(ConformanceProduct, DTypesAndSizesPastTheFusedOnes) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    if (!has(dtype) || (!thorough() && dtype != DType::bf16 && dtype != DType::i32)) continue;
    SCOPED_TRACE(name_of(dtype));
    const Array a = some({2, 3, 4}, dtype, 0.1), b = some({4, 5}, dtype, 0.8);
    expect_result({a, b}, kMatmul, multiplied(a, b), close_in(dtype, 2));
  }
  const Array a = some({3, 40, 50}, DType::f32, 0.1), b = some({3, 50, 30}, DType::f32, 0.8);
  expect_result({a, b}, kMatmul, multiplied(a, b), close_in(DType::f32, 4));
  const Array whole = some({60, 40}, DType::i64, 0.1), other = some({40, 50}, DType::i64, 0.8);
  expect_result({whole, other}, kMatmul, multiplied(whole, other), {});
}

TEST(ConformanceProduct, OperandsThroughViews) {
  if (!thorough()) GTEST_SKIP() << "views, covered by slicing";
  const Array a = numbers({4, 3, 5}), b = numbers({4, 6, 5}, -1, 1, DType::f32, 0.6);
  expect_result(
      {a, b}, [](const auto& in) { return matmul(in[0], in[1].transpose(1, 2)); },
      multiplied(a, permuted(b, {0, 2, 1})), close_in(DType::f32));
  expect_result(
      {a, b},
      [](const auto& in) {
        return matmul(in[0].permute({1, 0, 2}), in[1].permute({1, 2, 0}).narrow(0, 1, 3));
      },
      multiplied(permuted(a, {1, 0, 2}), narrowed(permuted(b, {1, 2, 0}), 0, 1, 3)),
      close_in(DType::f32));
  expect_result(
      {a, b},
      [](const auto& in) {
        return matmul(in[0].narrow(0, 0, 1).expand({4, 3, 5}),
                      in[1].slice(1, {}, {}, -2).transpose(1, 2));
      },
      multiplied(
          expanded(narrowed(a, 0, 0, 1), {4, 3, 5}),
          permuted(made({4, 3, 5}, DType::f32,
                        [&](const Index& i) { return at(b, Index{i[0], 5 - 2 * i[1], i[2]}); }),
                   {0, 2, 1})),
      close_in(DType::f32));
}

TEST(ConformanceProduct, GradientsOfEveryCombination) {
  const std::pair<Shape, Shape> cases[] = {{{3}, {3}},
                                           {{2, 3}, {3}},
                                           {{3}, {3, 2}},
                                           {{2, 3}, {3, 2}},
                                           {{2, 2, 3}, {3, 2}},
                                           {{2, 3}, {2, 3, 2}},
                                           {{2, 1, 2, 3}, {2, 3, 2}},
                                           {{2, 2, 2, 3}, {2, 1, 3, 2}}};
  for (const auto& [a, b] : cases) {
    if (!thorough() && a.rank() + b.rank() != 5) continue;
    SCOPED_TRACE(to_string(a) + to_string(b));
    expect_gradients({numbers(a), numbers(b, -1, 1, DType::f32, 0.7)},
                     [](const auto& in) { return matmul(in[0], in[1]).square(); });
  }
}

TEST(ConformanceProduct, DotOuterBmm) {
  const Array a = numbers({6}), b = numbers({6}, -1, 1, DType::f32, 0.7);
  const Function dots = [](const auto& in) { return dot(in[0], in[1]); };
  const Function outers = [](const auto& in) { return outer(in[0], in[1]); };
  const Function bmms = [](const auto& in) { return bmm(in[0], in[1]); };
  expect_result({a, b}, dots, multiplied(a, b), close_in(DType::f32));
  expect_result({a, narrowed(b, 0, 0, 4)}, outers,
                made({6, 4}, DType::f32,
                     [&](const Index& i) { return at(a, Index{i[0]}) * at(b, Index{i[1]}); }),
                close_in(DType::f32));
  const Array i = integers({6}, -3, 3, DType::i32), none = numbers({0});
  expect_result({i, i}, dots, multiplied(i, i), {});
  expect_result({none, none}, dots, Array({}, {0}), {});
  if (!thorough()) return;
  const Array x = numbers({2, 3, 4}), y = numbers({2, 4, 2});
  expect_result({x, y}, bmms, multiplied(x, y), close_in(DType::f32));
  expect_gradients({a, b}, [&](const auto& in) { return dots(in).square(); });
  expect_gradients({a, b}, [&](const auto& in) { return outers(in).square(); });
  expect_gradients({x, y}, [&](const auto& in) { return bmms(in).square(); });
}

// ---- einsum.

// einsum by its definition, without "...": the product of all elements that the labels name, summed
// over the labels that the output lacks.
Array summed(const std::string& equation, const std::vector<Array>& operands) {
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> inputs(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      inputs.emplace_back();
    } else {
      inputs.back() += c;
    }
  }
  const std::string output = equation.substr(arrow + 2);
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t k = 0; k < inputs[i].size(); ++k) {
      auto& size = sizes[inputs[i][k]];
      size = std::max(size, operands[i].shape[static_cast<int>(k)]);
    }
  }
  std::string inner;
  Index inner_sizes, output_sizes;
  for (const auto& [label, size] : sizes) {
    if (output.find(label) == std::string::npos) {
      inner += label;
      inner_sizes.push_back(size);
    }
  }
  for (const char label : output) output_sizes.push_back(sizes[label]);
  return made(Shape(output_sizes), operands[0].dtype, [&](const Index& o) {
    std::map<char, std::int64_t> index;
    for (std::size_t i = 0; i < output.size(); ++i) index[output[i]] = o[i];
    double sum = 0;
    const Shape space(inner_sizes);
    for (std::int64_t n = 0; n < space.numel(); ++n) {
      const Index r = index_of(n, space);
      for (std::size_t i = 0; i < inner.size(); ++i) index[inner[i]] = r[i];
      double product = 1;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        Index at_input;
        for (const char label : inputs[i]) at_input.push_back(index[label]);
        product *= at(operands[i], at_input);
      }
      sum += product;
    }
    return sum;
  });
}

struct Contraction {
  const char* equation;
  std::vector<Shape> shapes;
};
const std::vector<Contraction>& contractions() {
  static const std::vector<Contraction> all = {
      {"ij->ji", {{3, 4}}},
      {"ij->", {{3, 4}}},
      {"ij->i", {{3, 4}}},
      {"ii->i", {{3, 3}}},
      {"ii->", {{3, 3}}},
      {"iji->j", {{3, 4, 3}}},
      {"iiij->ji", {{3, 3, 3, 2}}},
      {"i,i->", {{5}, {5}}},
      {"i,i->i", {{5}, {5}}},
      {"i,j->ij", {{3}, {4}}},
      {"i,j->ji", {{3}, {4}}},
      {"ij,jk->ik", {{3, 4}, {4, 5}}},
      {"ij,jk->ki", {{3, 4}, {4, 5}}},
      {"ij,kj->ik", {{3, 4}, {5, 4}}},
      {"ji,jk->ik", {{4, 3}, {4, 5}}},
      {"ij,j->i", {{3, 4}, {4}}},
      {"j,ij->i", {{4}, {3, 4}}},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bhqd,bhkd->bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}},
      {"bhqk,bhkd->bqhd", {{2, 2, 3, 5}, {2, 2, 5, 4}}},
      {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
      {"ab,cd->abcd", {{2, 3}, {4, 2}}},
      {"abc,cb->a", {{2, 3, 4}, {4, 3}}},
      {"abcd,bcde->ae", {{2, 3, 2, 4}, {3, 2, 4, 5}}},
      {"abc,abc->", {{2, 3, 4}, {2, 3, 4}}},
      {"ij,jk,kl->il", {{3, 4}, {4, 5}, {5, 2}}},
      {"i,i,i->", {{4}, {4}, {4}}},
      {"bn,anm,bm->ba", {{2, 3}, {4, 3, 5}, {2, 5}}},
      {"ij,jk->ik", {{3, 1}, {4, 5}}},
      {"bij,bjk->bik", {{1, 3, 4}, {2, 4, 5}}},
      {"ij,ik->", {{3, 4}, {3, 5}}},
      {"ij,jk->ik", {{3, 0}, {0, 5}}},
      {"ii,ij->j", {{3, 3}, {3, 4}}},
  };
  return all;
}

TEST(ConformanceProduct, EinsumByItsDefinition) {
  std::size_t number = 0;
  for (const auto& [equation, shapes] : contractions()) {
    if (number++ % 6 != 0 && !thorough()) continue;
    SCOPED_TRACE(equation);
    std::vector<Array> inputs;
    for (const Shape& shape : shapes)
      inputs.push_back(numbers(shape, -1, 1, DType::f32, 0.1 + 0.2 * double(inputs.size())));
    expect_result(
        inputs, [&](const auto& in) { return einsum(equation, in); }, summed(equation, inputs),
        close_in(DType::f32, 2));
  }
}

TEST(ConformanceProduct, EinsumPassesGradientsOn) {
  if (!thorough()) GTEST_SKIP() << "covered by matmul";
  for (const auto& [equation, shapes] : contractions()) {
    if (shapes[0].numel() == 0) continue;
    SCOPED_TRACE(equation);
    std::vector<Array> inputs;
    for (const Shape& shape : shapes)
      inputs.push_back(numbers(shape, -1, 1, DType::f32, 0.1 + 0.2 * double(inputs.size())));
    expect_gradients(inputs, [&](const auto& in) { return einsum(equation, in).square(); });
  }
}

TEST(ConformanceProduct, EinsumWithEllipsesAndWithoutAnArrow) {
  if (!thorough()) GTEST_SKIP() << "covered by matmul";
  const Array a = numbers({2, 3, 4}), b = numbers({4, 5}), c = numbers({3, 4, 2});
  const auto gives = [&](const char* equation, const std::vector<Array>& inputs,
                         const Array& expected) {
    SCOPED_TRACE(equation);
    expect_result(
        inputs, [&](const auto& in) { return einsum(equation, in); }, expected,
        close_in(DType::f32, 2));
  };
  gives("...ij,jk->...ik", {a, b}, summed("bij,jk->bik", {a, b}));
  gives("...j,jk", {a, b}, summed("bij,jk->bik", {a, b}));
  gives("i...,...->i...", {a, numbers({3, 4})}, summed("iab,ab->iab", {a, numbers({3, 4})}));
  gives("...ij,...jk->...ik", {a, numbers({5, 1, 4, 2})},
        summed("bij,cbjk->cbik", {a, expanded(numbers({5, 1, 4, 2}), {5, 2, 4, 2})}));
  gives("...->", {a}, summed("abc->", {a}));
  gives("i...", {a}, summed("iab->abi", {a}));
  gives("ji", {b}, summed("ji->ij", {b}));
  gives("ij , jk", {Array({6, 4}, numbers({24}).values), b},
        summed("ij,jk->ik", {Array({6, 4}, numbers({24}).values), b}));
  gives("ii", {numbers({3, 3})}, summed("ii->", {numbers({3, 3})}));
  const Array whole = integers({3, 4}, -3, 3, DType::i64),
              other = integers({4, 2}, -3, 3, DType::i64);
  gives("ij,jk->ik", {whole, other}, summed("ij,jk->ik", {whole, other}));
}

// ---- Cost.

Tensor stored(const Shape& shape) { return upload(numbers(shape)).eval(); }

TEST(ConformanceProduct, OneProductAndNoCopy) {
  const Tensor q = stored({2, 4, 40, 32}), k = stored({2, 4, 48, 32}), x = stored({64, 64}),
               many = stored({2, 3, 4, 40, 32}), one = stored({32, 48}),
               few = stored({2, 3, 48, 32});
  const auto expect_one = [](const char* what, const std::function<Tensor()>& call) {
    const Explanation explained = explain(call());
    EXPECT_EQ(explained.library_calls(), 1) << what;
    EXPECT_EQ(explained.kernels(), 0) << what;
  };
  expect_one("bhqd,bhkd->bhqk", [&] { return einsum("bhqd,bhkd->bhqk", {q, k}); });
  expect_one("the same by matmul", [&] { return matmul(q, k.transpose(2, 3)); });
  expect_one("ij,kj->ki", [&] { return einsum("ij,kj->ki", {x, x}); });
  expect_one("ji,jk->ik", [&] { return einsum("ji,jk->ik", {x, x}); });
  expect_one("qbd,kbd->bqk", [&] {
    return einsum("qbd,kbd->bqk", {q.reshape({80, 4, 32}), k.reshape({96, 4, 32})});
  });
  expect_one("...ij,jk->...ik", [&] { return einsum("...ij,jk->...ik", {many, one}); });
  expect_one("one matrix for all", [&] { return matmul(many, one); });
  expect_one("one matrix, turned, for all", [&] { return matmul(one.t(), many.transpose(3, 4)); });
  expect_one("one matrix with axes of 1", [&] { return matmul(q, one.reshape({1, 1, 32, 48})); });
  expect_one("heads that share keys",
             [&] { return matmul(many, few.reshape({2, 3, 1, 48, 32}).transpose(3, 4)); });
  expect_one("turned on the left", [&] { return matmul(q.transpose(2, 3), q); });
}

}  // namespace
}  // namespace volta::conformance
