// Kernels and bytes of named expressions against minima derived by hand. A minimum is what the
// schedules allow: one iteration space and one set of reduced axes per kernel, any number of
// stores, and no reads of memory that another thread writes. Products are counted separately. Sizes
// are below those at which a reduction is split, unless the name says "long".
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <sstream>
#include <vector>

#include "plan/lower/split.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Outputs = std::vector<Tensor>;

constexpr std::int64_t R = 64, C = 96, N = R * C;      // rows, columns, elements
constexpr std::int64_t K = 10;                         // classes
constexpr std::int64_t H = 128, A = R * H;             // hidden units, activations
constexpr std::int64_t B = 4, F = 16, M = B * F * 64;  // images of F channels, 8 x 8
constexpr std::int64_t S = 4 * R * R;                  // scores of four heads
constexpr std::int64_t Long = std::int64_t{1} << 20;

TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = test_device()}; }

struct Inputs {
  Tensor x = randn({R, C}, here()), y = randn({R, C}, here()), z = randn({C, R}, here());
  Tensor g = randn({R, C}, here()), m = randn({R, C}, here()), s = rand({R, C}, here());
  Tensor w = randn({C}, here()), b = randn({C}, here()), v = randn({R}, here());
  Tensor half_cos = rand({R, C / 2}, here()), half_sin = rand({R, C / 2}, here());
  Tensor square = randn({R, R}, here()), cube = randn({8, 8, C}, here());
  Tensor images = randn({B, F, 8, 8}, here()), slopes = randn({B, F, 8, 8}, here());
  Tensor scale = rand({1, F, 1, 1}, here()), shift = rand({1, F, 1, 1}, here());
  Tensor run_mean = rand({1, F, 1, 1}, here()), run_var = rand({1, F, 1, 1}, here());
  Tensor logits = randn({R, K}, here()), labels = randint(0, K, {R}, here(DType::i64));
  Tensor ids = randint(0, 500, {R}, here(DType::i64)), table = randn({500, C}, here());
  Tensor w1 = randn({H, C}, here()), b1 = randn({H}, here());
  Tensor w2 = randn({C, H}, here()), b2 = randn({C}, here());
  Tensor q = randn({4, R, 32}, here()), k = randn({4, R, 32}, here()),
         u = randn({4, R, 32}, here());
  Tensor turned = randn({C, R}, here()), other = randn({48, 128}, here());
  Tensor turned_m = randn({C, R}, here()), turned_s = rand({C, R}, here());
  Tensor w_m = randn({C}, here()), w_s = rand({C}, here());
  Tensor half = randn({R, C}, here()).to(DType::f16), half2 = randn({R, C}, here()).to(DType::f16);
  Tensor lone = randn({Long}, here());

  Inputs() { x.eval(); }
};

Tensor leaf(const Tensor& value) { return value.clone().set_requires_grad(); }

struct Minimum {
  const char* name;
  const char* reason;
  int kernels, products;
  std::int64_t read, written;  // bytes that the kernels read and write
  std::function<Outputs(Inputs&)> build;
};

// The bytes of f32 elements.
constexpr std::int64_t f32(std::int64_t elements) { return 4 * elements; }

Tensor variance(const Tensor& x, std::int64_t axis) {
  return (x - x.mean(axis, true)).square().mean(axis);
}
Tensor channel_mean(const Tensor& x) { return x.sum({0, 2, 3}, true) / (B * 64.0); }
Tensor causal(std::int64_t n) {
  return arange(n, here()).reshape({n, 1}).ge(arange(n, here()).reshape({1, n}));
}
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor scores = q.matmul(k.transpose(1, 2)) * 0.177;
  return where(causal(R), scores, -1e9).softmax(2).matmul(v);
}
Tensor rms_norm(const Tensor& x, const Tensor& w) {
  return x * (x.square().mean(1, true) + 1e-6).rsqrt() * w;
}
Tensor padded(const Tensor& x, std::int64_t before, std::int64_t after) {
  const std::int64_t left[] = {0, before}, right[] = {0, after};
  return pad(x, left, right);
}
// Adam's direction written out: new moments and the step.
struct Moments {
  Tensor m, s, step;
};
Moments moments(const Tensor& g, const Tensor& m, const Tensor& s) {
  const Tensor first = m * 0.9 + g * 0.1, second = s * 0.999 + g * g * 0.001;
  return {first, second, first / (second.sqrt() + 1e-8)};
}
Outputs adam(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& s) {
  Moments next = moments(g, m, s);
  return {p - next.step * 1e-3, next.m, next.s};
}
Outputs lamb(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& s) {
  Moments next = moments(g, m, s);
  const Tensor update = next.step + p * 0.01;
  const Tensor ratio = p.square().sum().sqrt() / update.square().sum().sqrt();
  return {p - update * (ratio * 1e-3), next.m, next.s};
}
Outputs joined(std::initializer_list<Outputs> lists) {
  Outputs all;
  for (const Outputs& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::int64_t long_chunks() {
  return plan::reduction_chunks(Long, 1, true, !test_device().is_cpu());
}

std::vector<Minimum> minima() {
  const std::int64_t chunks = long_chunks();
  return {
      // ---- Elementwise.
      {"chain", "one space, one output", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs {
         return {(in.x * in.y + 0.5).tanh() * in.x.sigmoid() + in.y.square() - in.x};
       }},
      {"row and column broadcasts", "broadcasts are index expressions", 1, 0, f32(N + C + R),
       f32(N), [](Inputs& in) -> Outputs { return {(in.x * in.w + in.v.reshape({R, 1})).relu()}; }},
      {"outer product", "both vectors are read once", 1, 0, f32(R + C), f32(N),
       [](Inputs& in) -> Outputs { return {in.v.reshape({R, 1}) * in.w}; }},
      {"residual add", "x is read once for both uses", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x + in.y.gelu() + in.x}; }},
      {"concatenated", "every operand is read once", 1, 0, f32(3 * N), f32(3 * N),
       [](Inputs& in) -> Outputs { return {concat({in.x, in.y, in.g}, 1)}; }},
      {"concatenated rows, computed first", "as any other view", 1, 0, f32(3 * N), f32(3 * N),
       [](Inputs& in) -> Outputs { return {concat({in.x.exp(), in.y * in.x, in.z.t()}, 0)}; }},
      {"heads stacked", "a new axis costs nothing", 1, 0, f32(4 * N), f32(4 * N),
       [](Inputs& in) -> Outputs { return {stack({in.x, in.y, in.g, in.m}, 1)}; }},
      {"mirrored border", "views of one operand", 1, 0, f32(N), f32((R + 4) * (C + 4)),
       [](Inputs& in) -> Outputs {
         return {in.x.pad({2, 2}, {2, 2}, {.mode = PadMode::reflect})};
       }},
      {"every other element turned", "steps are index expressions", 1, 0, f32(N / 2), f32(N / 2),
       [](Inputs& in) -> Outputs { return {in.x.slice(1, {}, {}, -2).exp()}; }},
      {"windows, forward and backward", "a gradient is a sum along diagonals", 2, 0,
       f32(N) + f32(R * (C - 2)), f32(R * (C - 2)) + f32(N),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x), y = x.unfold(1, 3, 1).sum(2);
         y.square().sum().backward();
         return {y, x.grad()};
       }},
      {"select", "a condition is arithmetic", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs { return {where(in.x.gt(0), in.x, in.y * 0.1)}; }},
      {"three outputs of one input", "one space, three stores", 1, 0, f32(N), f32(3 * N),
       [](Inputs& in) -> Outputs { return {in.x.exp(), in.x.sin(), in.x * 2 + 1}; }},
      {"an output that feeds another", "a held value is one more store", 1, 0, f32(2 * N),
       f32(2 * N),
       [](Inputs& in) -> Outputs {
         const Tensor a = in.x * 2;
         return {a, a + in.y};
       }},
      {"two shapes of one space", "a reshape changes no element's place", 1, 0, f32(N), f32(2 * N),
       [](Inputs& in) -> Outputs { return {in.x * 2, (in.x + 1).reshape({8, 8, C})}; }},
      {"chain through reshapes", "element numbers stay", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs { return {(in.x.reshape({N}) * 2).reshape({C, R}) + in.z}; }},
      {"common subexpression", "x + y once", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs { return {(in.x + in.y).exp() * (in.x + in.y).sin()}; }},
      {"half precision chain", "two bytes an element", 1, 0, 2 * 2 * N, 2 * N,
       [](Inputs& in) -> Outputs { return {(in.half * in.half2 + 1).tanh()}; }},
      {"dropout", "random numbers need no memory", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {dropout(in.x, 0.3)}; }},
      {"one-hot by comparison", "the axis is an index", 1, 0, 8 * R, f32(R * K),
       [](Inputs& in) -> Outputs {
         return {in.labels.reshape({R, 1}).eq(arange(K, here(DType::i64))).to(DType::f32)};
       }},
      {"triangle by iota", "nothing to read", 1, 0, 0, R * R,
       [](Inputs&) -> Outputs { return {causal(R)}; }},
      // ---- Views.
      {"transpose", "a permuted load", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x.t() * 2}; }},
      {"transpose and add", "one operand permuted", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x.t() + in.z}; }},
      {"product of two slices", "each half once", 1, 0, f32(N), f32(N / 2),
       [](Inputs& in) -> Outputs {
         return {in.x.narrow(1, 0, C / 2) * in.x.narrow(1, C / 2, C / 2)};
       }},
      {"rotary", "pads are masked loads", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs {
         const Tensor a = in.x.narrow(1, 0, C / 2), b = in.x.narrow(1, C / 2, C / 2);
         const Tensor left = a * in.half_cos - b * in.half_sin;
         const Tensor right = b * in.half_cos + a * in.half_sin;
         return {padded(left, 0, C / 2) + padded(right, C / 2, 0)};
       }},
      {"concatenation by pads", "pads are masked loads", 1, 0, f32(2 * N), f32(2 * N),
       [](Inputs& in) -> Outputs { return {padded(in.x, 0, C) + padded(in.y, C, 0)}; }},
      {"difference of neighbours", "both slices from one buffer", 1, 0, f32(N), f32(R * (C - 1)),
       [](Inputs& in) -> Outputs { return {in.x.narrow(1, 1, C - 1) - in.x.narrow(1, 0, C - 1)}; }},
      {"three-point stencil", "a border of zeros is a mask", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs {
         const Tensor p = padded(in.x, 1, 1);
         return {p.narrow(1, 0, C) + p.narrow(1, 1, C) * 2 + p.narrow(1, 2, C)};
       }},
      {"heads apart", "a permuted load", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x.reshape({R, 4, C / 4}).permute({1, 0, 2}) + 1}; }},
      {"product of permuted heads", "strided batches are operands as they lie", 0, 1, 0, 0,
       [](Inputs& in) -> Outputs {
         const Tensor heads = in.x.reshape({R, 4, C / 4}).permute({1, 0, 2});
         return {heads.matmul(heads.transpose(1, 2))};
       }},
      {"a copy and a turned copy", "one tile serves both orders", 1, 0, f32(2 * N), f32(2 * N),
       [](Inputs& in) -> Outputs { return {in.x * 2, in.x.t() + in.z}; }},
      // ---- Reductions.
      {"row sums", "one space", 1, 0, f32(N), f32(R),
       [](Inputs& in) -> Outputs { return {(in.x * 2).sum(1)}; }},
      {"column sums", "one space", 1, 0, f32(N), f32(C),
       [](Inputs& in) -> Outputs { return {(in.x * 2).sum(0)}; }},
      {"sum of everything", "one row", 1, 0, f32(N), f32(1),
       [](Inputs& in) -> Outputs { return {in.x.sum()}; }},
      {"long sum", "split in two: chunks, then their sums", 2, 0, f32(Long + chunks),
       f32(chunks + 1), [](Inputs& in) -> Outputs { return {in.lone.sum()}; }},
      {"long chain and its sum", "the chain is stored by the kernel of the chunks", 2, 0,
       f32(Long + chunks), f32(Long + chunks + 1),
       [](Inputs& in) -> Outputs {
         const Tensor a = in.lone * 2;
         return {a, a.sum()};
       }},
      {"sums along both axes", "two sets of reduced axes", 2, 0, f32(2 * N), f32(R + C),
       [](Inputs& in) -> Outputs { return {in.x.sum(0), in.x.sum(1)}; }},
      {"sum of row sums", "sums of sums are one sum", 1, 0, f32(N), f32(1),
       [](Inputs& in) -> Outputs { return {in.x.sum(1).sum()}; }},
      {"two axes of three", "one set of reduced axes", 1, 0, f32(N), f32(8),
       [](Inputs& in) -> Outputs { return {in.cube.sum({0, 2})}; }},
      {"permuted reduction", "a permuted load", 1, 0, f32(N), f32(8 * C),
       [](Inputs& in) -> Outputs { return {in.cube.permute({2, 0, 1}).max(2)}; }},
      {"several row reductions", "one space, three results", 1, 0, f32(N), f32(3 * R),
       [](Inputs& in) -> Outputs { return {in.x.max(1), in.x.sum(1), in.x.square().sum(1)}; }},
      {"largest and where", "one space, two results", 1, 0, f32(N), (4 + 8) * R,
       [](Inputs& in) -> Outputs { return {in.x.max(1), in.x.argmax(1)}; }},
      {"map beside a column sum", "the columns' kernel stores it", 1, 0, f32(N), f32(N + C),
       [](Inputs& in) -> Outputs {
         const Tensor a = in.x.relu();
         return {a, a.sum(0)};
       }},
      {"gather and reduce", "rows are loaded where they are summed", 1, 0, f32(N) + 8 * R, f32(C),
       [](Inputs& in) -> Outputs { return {embedding(in.table, in.ids).sum(0)}; }},
      {"histogram by comparison", "the one-hot matrix is never stored", 1, 0, 8 * R, f32(K),
       [](Inputs& in) -> Outputs {
         const Tensor hot = in.labels.reshape({R, 1}).eq(arange(K, here(DType::i64)));
         return {hot.to(DType::f32).sum(0)};
       }},
      // ---- Rows.
      {"softmax", "max, sum and store in one row", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x.softmax(1)}; }},
      {"log_softmax", "max, sum and store in one row", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x.log_softmax(1)}; }},
      {"softmax of halves", "converted where they are read and written", 1, 0, 2 * N, 2 * N,
       [](Inputs& in) -> Outputs { return {in.half.softmax(1)}; }},
      {"variance", "mean and squares of one row", 1, 0, f32(N), f32(R),
       [](Inputs& in) -> Outputs { return {in.x.var(1)}; }},
      {"deviation over two axes", "rows of the same space", 1, 0, f32(8 * 8 * C), f32(8),
       [](Inputs& in) -> Outputs { return {in.cube.std({1, 2})}; }},
      {"log of a sum of exponentials", "max and sum of one row", 1, 0, f32(N), f32(R),
       [](Inputs& in) -> Outputs { return {in.x.logsumexp(1)}; }},
      {"log of a sum of exponentials, forward and backward", "one row", 1, 0, f32(N), f32(N + R),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x), y = x.logsumexp(1);
         y.sum().backward();
         return {y, x.grad()};
       }},
      {"norms", "two sums and an extremum of one row", 1, 0, f32(N), f32(3 * R),
       [](Inputs& in) -> Outputs {
         return {in.x.norm(2, 1), in.x.norm(1, 1), in.x.norm(HUGE_VAL, 1)};
       }},
      {"scaled to unit norm", "the sum and the rows in one", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x / in.x.norm(2, 1, true)}; }},
      {"largest with its gradient", "the position is found beside the value", 1, 0, f32(N),
       f32(R + N),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x), y = x.max(1);
         y.sum().backward();
         return {y, x.grad()};
       }},
      {"softmax of columns", "max, sum and store in one column", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs { return {in.x.softmax(0)}; }},
      {"masked softmax", "the mask is an index comparison", 1, 0, f32(R * R), f32(R * R),
       [](Inputs& in) -> Outputs { return {where(causal(R), in.square, -1e9).softmax(1)}; }},
      {"log-sum-exp", "one row", 1, 0, f32(N), f32(R),
       [](Inputs& in) -> Outputs {
         const Tensor top = in.x.max(1, true);
         return {((in.x - top).exp().sum(1, true).log() + top).reshape({R})};
       }},
      {"layer norm", "mean, variance and store in one row", 1, 0, f32(N + 2 * C), f32(N),
       [](Inputs& in) -> Outputs { return {layer_norm(in.x, {C}, in.w, in.b)}; }},
      {"dropout, residual, layer norm", "one row", 1, 0, f32(2 * N + 2 * C), f32(N),
       [](Inputs& in) -> Outputs {
         return {layer_norm(in.x + dropout(in.y, 0.1), {C}, in.w, in.b)};
       }},
      {"gather and layer norm", "rows are loaded where they are normed", 1, 0,
       f32(N + 2 * C) + 8 * R, f32(N),
       [](Inputs& in) -> Outputs {
         return {layer_norm(embedding(in.table, in.ids), {C}, in.w, in.b)};
       }},
      {"RMS norm", "one row", 1, 0, f32(N + C), f32(N),
       [](Inputs& in) -> Outputs { return {rms_norm(in.x, in.w)}; }},
      {"row variance", "two passes over one row", 1, 0, f32(N), f32(R),
       [](Inputs& in) -> Outputs { return {variance(in.x, 1)}; }},
      {"standardise everything", "the array is one row", 1, 0, f32(N), f32(N),
       [](Inputs& in) -> Outputs {
         const Tensor d = in.x - in.x.mean();
         return {d / (d.square().mean() + 1e-5).sqrt()};
       }},
      {"mean and what it centres", "two stores of one row", 1, 0, f32(N), f32(R + N),
       [](Inputs& in) -> Outputs {
         const Tensor mean = in.x.mean(1, true);
         return {mean, in.x - mean};
       }},
      {"cosine similarity", "three sums over one row", 1, 0, f32(2 * N), f32(R),
       [](Inputs& in) -> Outputs {
         const Tensor length = in.x.square().sum(1) * in.y.square().sum(1);
         return {(in.x * in.y).sum(1) / length.sqrt()};
       }},
      {"mean cosine distance", "a value per row, then their mean", 2, 0, f32(2 * N + R), f32(R + 1),
       [](Inputs& in) -> Outputs {
         const Tensor length = in.x.square().sum(1) * in.y.square().sum(1);
         return {(1 - (in.x * in.y).sum(1) / length.sqrt()).mean()};
       }},
      {"two rows normalised and added", "both norms belong to one row", 1, 0, f32(2 * N), f32(N),
       [](Inputs& in) -> Outputs {
         return {in.x / in.x.square().sum(1, true).sqrt() +
                 in.y / in.y.square().sum(1, true).sqrt()};
       }},
      {"divergence of two softmaxes", "both are rows of one space", 1, 0, f32(2 * N), f32(R),
       [](Inputs& in) -> Outputs {
         const Tensor p = in.x.log_softmax(1);
         return {(p.exp() * (p - in.y.log_softmax(1))).sum(1)};
       }},
      // ---- Images.
      {"mean over batch and space", "one set of reduced axes", 1, 0, f32(M), f32(F),
       [](Inputs& in) -> Outputs { return {channel_mean(in.images)}; }},
      {"group norm", "a group's channels and pixels are one row", 1, 0, f32(M + 2 * F), f32(M),
       [](Inputs& in) -> Outputs {
         const Tensor rows = in.images.reshape({B, 4, M / B / 4});
         const Tensor d = rows - rows.mean(2, true);
         const Tensor y = d * (d.square().mean(2, true) + 1e-5).rsqrt();
         return {y.reshape({B, F, 8, 8}) * in.scale + in.shift};
       }},
      {"batch norm, training", "statistics, state and values of a channel", 1, 0, f32(M + 4 * F),
       f32(M + 2 * F),
       [](Inputs& in) -> Outputs {
         const Tensor mean = channel_mean(in.images), d = in.images - mean;
         const Tensor var = channel_mean(d.square());
         return {d * (var + 1e-5).rsqrt() * in.scale + in.shift, in.run_mean * 0.9 + mean * 0.1,
                 in.run_var * 0.9 + var * 0.1};
       }},
      {"batch norm, forward and backward", "every sum is over one channel", 1, 0,
       f32(2 * M + 2 * F), f32(2 * M + 2 * F),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.images), w = leaf(in.scale), b = leaf(in.shift);
         for (const Tensor& t : {x, w, b}) t.eval();
         const Tensor d = x - channel_mean(x);
         const Tensor y = d * (channel_mean(d.square()) + 1e-5).rsqrt() * w + b;
         y.backward(in.slopes);
         return {y.detach(), x.grad(), w.grad(), b.grad()};
       }},
      // ---- Forward and backward.
      {"gelu, forward and backward", "one space", 1, 0, f32(2 * N), f32(2 * N),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x).eval();
         const Tensor y = x.gelu();
         y.backward(in.g);
         return {y.detach(), x.grad()};
       }},
      {"softmax, forward and backward", "one row", 1, 0, f32(2 * N), f32(2 * N),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x).eval();
         const Tensor y = x.softmax(1);
         y.backward(in.g);
         return {y.detach(), x.grad()};
       }},
      {"layer norm, forward and backward",
       "rows for y and dx, columns for the parameters; mean and deviation in between", 2, 0,
       f32(2 * N + 2 * C) + f32(2 * N + 2 * R), f32(2 * N + 2 * R) + f32(2 * C),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x).eval(), w = leaf(in.w).eval(), b = leaf(in.b).eval();
         const Tensor y = layer_norm(x, {C}, w, b);
         y.backward(in.g);
         return {y.detach(), x.grad(), w.grad(), b.grad()};
       }},
      {"cross-entropy", "a loss per row, then their mean over labels, which are counted there", 2,
       0, f32(R * K + R) + 2 * 8 * R, f32(R + 1),
       [](Inputs& in) -> Outputs { return {cross_entropy(in.logits, in.labels)}; }},
      // Every gradient is divided by the number of labels that are not ignored, which is known
      // before the first row. The kernels of the rows and of the mean read it.
      {"cross-entropy, forward and backward",
       "labels are counted, then the gradient is stored by the rows' kernel", 3, 0,
       8 * R + f32(R * K + 1) + 8 * R + f32(R + 1), f32(1) + f32(R * K + R) + f32(1),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.logits).eval();
         const Tensor loss = cross_entropy(x, in.labels);
         loss.backward();
         return {loss.detach(), x.grad()};
       }},
      {"accuracy", "a byte per row, then their mean", 2, 0, f32(R * K) + 8 * R + R, R + 4,
       [](Inputs& in) -> Outputs {
         return {in.logits.argmax(1).eq(in.labels).to(DType::f32).mean()};
       }},
      {"squared error, forward and backward", "the array is one row", 1, 0, f32(2 * N), f32(N + 1),
       [](Inputs& in) -> Outputs {
         const Tensor x = leaf(in.x).eval();
         const Tensor loss = mse_loss(x, in.y);
         loss.backward();
         return {loss.detach(), x.grad()};
       }},
      {"Huber loss", "one row", 1, 0, f32(2 * N), f32(1),
       [](Inputs& in) -> Outputs {
         const Tensor d = (in.x - in.y).abs();
         return {where(d.lt(1), d.square() * 0.5, d - 0.5).mean()};
       }},
      {"loss and penalty", "two arrays; the second sum adds the first", 2, 0, f32(2 * N + C + 1),
       f32(2),
       [](Inputs& in) -> Outputs { return {mse_loss(in.x, in.y) + in.w.square().sum() * 0.1}; }},
      // ---- Products with the operations around them.
      {"MLP block", "bias and activation; bias and residual", 2, 2, f32(A + H) + f32(2 * N + C),
       f32(A + N),
       [](Inputs& in) -> Outputs {
         const Tensor h = linear(in.x, in.w1, in.b1).gelu();
         return {linear(h, in.w2, in.b2) + in.x};
       }},
      {"gated unit", "both halves in one space", 1, 2, f32(2 * A), f32(A),
       [](Inputs& in) -> Outputs { return {linear(in.x, in.w1).silu() * linear(in.y, in.w1)}; }},
      {"norm before a product", "the norm; bias and activation", 2, 1, f32(N + 2 * C) + f32(A + H),
       f32(N + A),
       [](Inputs& in) -> Outputs {
         return {linear(layer_norm(in.x, {C}, in.w, in.b), in.w1, in.b1).relu()};
       }},
      {"MLP, forward and backward",
       "activation; loss and its gradient; a bias; activation's gradient with its bias", 4, 5,
       f32(A + H) + f32(2 * N + C) + f32(N) + f32(2 * A), f32(A) + f32(1 + N) + f32(C) + f32(A + H),
       [](Inputs& in) -> Outputs {
         const Tensor w1 = leaf(in.w1).eval(), b1 = leaf(in.b1).eval();
         const Tensor w2 = leaf(in.w2).eval(), b2 = leaf(in.b2).eval();
         const Tensor loss = mse_loss(linear(linear(in.x, w1, b1).relu(), w2, b2), in.y);
         loss.backward();
         return {loss.detach(), w1.grad(), b1.grad(), w2.grad(), b2.grad()};
       }},
      {"attention", "scale, mask and softmax in one row", 1, 2, f32(S), f32(S),
       [](Inputs& in) -> Outputs { return {attention(in.q, in.k, in.u)}; }},
      {"attention, forward and backward",
       "the product that the softmax's gradient needs comes before the softmax", 1, 6, f32(2 * S),
       f32(2 * S),
       [](Inputs& in) -> Outputs {
         const Tensor q = leaf(in.q).eval(), k = leaf(in.k).eval(), v = leaf(in.u).eval();
         const Tensor y = attention(q, k, v);
         y.backward(in.u);
         return {y.detach(), q.grad(), k.grad(), v.grad()};
       }},
      // ---- Optimizers.
      {"Adam for three parameters", "equal programs run side by side", 1, 0, f32(4 * (2 * N + C)),
       f32(3 * (2 * N + C)),
       [](Inputs& in) -> Outputs {
         return joined({adam(in.x, in.g, in.m, in.s), adam(in.w, in.b, in.w_m, in.w_s),
                        adam(in.turned, in.z, in.turned_m, in.turned_s)});
       }},
      {"LAMB for two parameters", "norms and update of an array that is one row; state is shared",
       1, 0, f32(5 * N), f32(2 * 3 * N),
       [](Inputs& in) -> Outputs {
         return joined({lamb(in.x, in.g, in.m, in.s), lamb(in.y, in.m, in.g, in.s)});
       }},
      {"gradients clipped by their norm", "a sum per array, then all arrays", 2, 0,
       f32(3 * N) + f32(3 * N + 3 * 3), f32(3) + f32(3 * N),
       [](Inputs& in) -> Outputs {
         const Tensor norm =
             (in.g.square().sum() + in.turned.square().sum() + in.other.square().sum()).sqrt();
         const Tensor factor = (1 / (norm + 1e-6)).minimum(1);
         return {in.g * factor, in.turned * factor, in.other * factor};
       }},
      {"moving average of two parameters", "equal programs run side by side", 1, 0, f32(2 * 2 * N),
       f32(2 * N),
       [](Inputs& in) -> Outputs {
         return {in.x * 0.99 + in.y * 0.01, in.turned * 0.99 + in.z * 0.01};
       }},
  };
}

// Values may differ in the last bits, because the order of a sum depends on its kernel.
void expect_close(const Tensor& a, const Tensor& b, const char* name) {
  const std::vector<double> left = a.to(DType::f64).to_vector<double>();
  const std::vector<double> right = b.to(DType::f64).to_vector<double>();
  ASSERT_EQ(left.size(), right.size()) << name;
  for (std::size_t i = 0; i < left.size(); ++i)
    ASSERT_NEAR(left[i], right[i], 1e-3 * (1 + std::abs(right[i]))) << name << " at " << i;
}

TEST(PlanMinima, SixtyExpressions) {
  Inputs in;
  submit(test_device());
  int reached = 0, total = 0;
  for (const Minimum& minimum : minima()) {
    ++total;
    const Outputs outputs = minimum.build(in);
    const Explanation plan = explain(outputs);
    std::int64_t read = 0, written = 0;
    for (const StepInfo& step : plan.steps) {
      if (step.kind != "kernel") continue;
      read += static_cast<std::int64_t>(step.bytes_read);
      written += static_cast<std::int64_t>(step.bytes_written);
    }
    EXPECT_EQ(plan.library_calls(), minimum.products) << minimum.name;
    EXPECT_LE(plan.kernels(), minimum.kernels + 1) << minimum.name << ": " << minimum.reason;
    // The explained steps are those that run.
    const Counters before = counters();
    submit(test_device());
    const Counters after = counters();
    EXPECT_EQ(after.launches - before.launches + after.library_calls - before.library_calls,
              plan.steps.size())
        << minimum.name;
    if (plan.kernels() == minimum.kernels && read == minimum.read && written == minimum.written) {
      ++reached;
      continue;
    }
    std::ostringstream text;
    text << plan;
    std::printf("%s (%s): %d kernels of %d, %lld bytes read of %lld, %lld written of %lld\n%s",
                minimum.name, minimum.reason, plan.kernels(), minimum.kernels,
                static_cast<long long>(read), static_cast<long long>(minimum.read),
                static_cast<long long>(written), static_cast<long long>(minimum.written),
                text.str().c_str());
  }
  EXPECT_GE(total, 60);
  EXPECT_GE(reached * 6, total * 5);
  std::printf("%d of %d expressions at their minimum\n", reached, total);
}

// Expressions that need one pass take one kernel, whatever is joined or reduced.
TEST(PlanMinima, OneKernelEach) {
  Inputs in;
  submit(test_device());
  const auto expect_one = [](const char* name, const Tensor& y, std::int64_t read,
                             std::int64_t written) {
    const Explanation plan = explain({y});
    ASSERT_EQ(plan.steps.size(), 1u) << name;
    EXPECT_EQ(static_cast<std::int64_t>(plan.steps[0].bytes_read), read) << name;
    EXPECT_EQ(static_cast<std::int64_t>(plan.steps[0].bytes_written), written) << name;
  };
  expect_one("softmax", in.x.softmax(1), f32(N), f32(N));
  expect_one("log_softmax", in.x.log_softmax(0), f32(N), f32(N));
  expect_one("var", in.x.var(1), f32(N), f32(R));
  expect_one("std", in.x.std({0, 1}), f32(N), f32(1));
  expect_one("logsumexp", in.x.logsumexp(1), f32(N), f32(R));
  expect_one("norm", in.x.norm(2, 0), f32(N), f32(C));
  expect_one("norm of any power", in.x.norm(2.5, 1), f32(N), f32(R));
  expect_one("prod", in.x.prod(1), f32(N), f32(R));
  expect_one("max", in.x.max(1), f32(N), f32(R));
  expect_one("all", in.x.all(1), f32(N), R);
  expect_one("roll", in.x.roll({3, 5}, {0, 1}), f32(N), f32(N));
  expect_one("repeat", in.x.repeat({2, 3}), f32(N), f32(6 * N));
  std::vector<Tensor> parts;
  for (int i = 0; i < 23; ++i) {
    parts.push_back(randn({R, C}, here()));
    parts.back().eval();
    if (i < 1) continue;
    expect_one("concat", concat(parts, i % 2), f32((i + 1) * N), f32((i + 1) * N));
  }
}

// Each output is also planned alone, which gives other groups than planning all together.
TEST(PlanMinima, GroupsDoNotChangeValues) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the groups are those of the CPU: kernels to spare";
  Inputs in;
  submit(test_device());
  for (const Minimum& minimum : minima()) {
    manual_seed(3);
    const Outputs together = minimum.build(in);
    submit(test_device());
    for (std::size_t i = 0; i < together.size(); ++i) {
      manual_seed(3);
      const Tensor alone = minimum.build(in)[i];
      expect_close(together[i], alone, minimum.name);
    }
  }
}

}  // namespace
}  // namespace volta
