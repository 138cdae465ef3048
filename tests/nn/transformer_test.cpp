// Attention and transformer layers: keys and initial values, dropout, visibility, gradients,
// positions, masks, mistakes.
#include "volta/nn/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/nn/masks.h"
#include "volta/nn/multihead_attention.h"
#include "volta/nn/positional.h"
#include "volta/volta.h"

namespace volta {
namespace {

template <class E>
std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::vector<std::string> keys(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module.state_dict()) names.push_back(name);
  return names;
}

double difference(const Tensor& a, const Tensor& b) { return volta::abs(a - b).max().item(); }

Tensor numbers(const Shape& shape, std::uint64_t seed = 1) {
  return randn(shape, {.device = test_device(), .generator = Generator(seed)});
}

TEST(Transformer, KeysArePyTorchs) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(keys(nn::MultiheadAttention(4, 2)),
            (Names{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(keys(nn::MultiheadAttention(4, 2, {.bias = false, .kdim = 3})),
            (Names{"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"}));
  EXPECT_EQ(
      keys(nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 8})),
      (Names{"self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
             "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight",
             "linear2.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}));
  const nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(4, 2), 2, nn::LayerNorm(4));
  const Names names = keys(encoder);
  EXPECT_EQ(names.size(), 26u);
  EXPECT_EQ(names.front(), "layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(names.back(), "norm.bias");
}

TEST(Transformer, StartsAsPyTorch) {
  const nn::MultiheadAttention layer(64, 4, {.device = test_device()});
  const double bound = std::sqrt(6.0 / (64 + 192));
  const double largest = volta::abs(*layer.in_proj_weight).max().item();
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.95 * bound);
  EXPECT_EQ(volta::abs(*layer.in_proj_bias).max().item(), 0);
  EXPECT_EQ(volta::abs(*layer.out_proj.bias).max().item(), 0);
  EXPECT_GT(volta::abs(*layer.out_proj.weight).max().item(), 0.9 / 8);
}

TEST(Transformer, EncoderHasCopiesOfItsLayer) {
  const nn::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 8, .device = test_device()});
  nn::TransformerEncoder encoder(layer, 2);
  const auto first = encoder.layers[0].linear1.weight->to_vector<float>();
  EXPECT_EQ(first, layer.linear1.weight->to_vector<float>());
  {
    const NoGrad no_grad;
    Tensor weight = encoder.layers[0].linear1.weight;
    weight += 1;
  }
  EXPECT_EQ(encoder.layers[1].linear1.weight->to_vector<float>(), first);
  EXPECT_EQ(layer.linear1.weight->to_vector<float>(), first);
  EXPECT_EQ(encoder.parameters().size(), 24u);
}

TEST(Transformer, GradientsReachEveryWeight) {
  manual_seed(3);
  nn::TransformerBlock block(8, 2, {.causal = true, .dropout = 0.1, .device = test_device()});
  nn::MultiheadAttention cross(8, 2, {.kdim = 6, .vdim = 5, .device = test_device()});
  const Tensor x = block(numbers({2, 6, 8}));
  const Tensor y = cross(x, numbers({2, 6, 6}, 2), numbers({2, 6, 5}, 3));
  volta::square(y).sum().backward();
  for (const nn::Module* module : std::vector<const nn::Module*>{&block, &cross}) {
    for (const auto& [name, parameter] : module->named_parameters()) {
      ASSERT_TRUE(parameter.grad().defined()) << name;
      EXPECT_GT(volta::abs(parameter.grad()).max().item(), 0) << name;
    }
  }
}

TEST(Transformer, CausalOutputsDoNotKnowLaterTokens) {
  nn::TransformerBlock block(8, 2, {.causal = true, .device = test_device()});
  nn::TransformerBlock whole(8, 2, {.device = test_device()});
  const Tensor x = numbers({1, 6, 8});
  Tensor changed = x.clone();
  changed.index({0, 4}) = 5;
  const auto moved = [&](nn::TransformerBlock& layer) {
    const Tensor d = volta::abs(layer(x) - layer(changed)).max(2).squeeze(0);
    return d.to_vector<double>();
  };
  const std::vector<double> causal = moved(block), all = moved(whole);
  for (std::size_t t = 0; t < 6; ++t) {
    if (t < 4) {
      EXPECT_EQ(causal[t], 0) << t;
    } else {
      EXPECT_GT(causal[t], 1e-3) << t;
    }
    EXPECT_GT(all[t], 1e-4) << t;
  }
}

// A mask applies in addition to a block's causality, and copies as the base class keep the
// causality.
TEST(Transformer, CausalBlocksStaySoWithOptionsAndInEncoders) {
  const nn::TransformerBlock block(8, 2, {.causal = true, .device = test_device()});
  nn::TransformerBlock called = block;
  nn::TransformerEncoder encoder(block, 2);
  nn::TransformerEncoderLayer sliced = block;  // the slicing is what is tested
  const Tensor x = numbers({1, 6, 8});
  Tensor changed = x.clone();
  changed.index({0, 4}) = 5;
  const Tensor first_only =
      tensor({0, 1, 0, 0, 0, 0}, {1, 6}, {.device = test_device()}).to(DType::boolean);
  const auto expect_causal = [&](const char* what, auto&& call) {
    const std::vector<double> moved =
        volta::abs(call(x) - call(changed)).max(2).squeeze(0).template to_vector<double>();
    for (std::size_t t = 0; t < 6; ++t) {
      if (t < 4) {
        EXPECT_EQ(moved[t], 0) << what << ' ' << t;
      } else {
        EXPECT_GT(moved[t], 1e-3) << what << ' ' << t;
      }
    }
  };
  const nn::AttendOptions masked{.key_padding_mask = first_only};
  expect_causal("block, options",
                [&](const Tensor& of) { return called(of, nn::AttendOptions{}); });
  expect_causal("block, mask", [&](const Tensor& of) { return called(of, masked); });
  expect_causal("sliced", [&](const Tensor& of) { return sliced(of); });
  expect_causal("encoder", [&](const Tensor& of) { return encoder(of); });
  expect_causal("encoder, mask", [&](const Tensor& of) { return encoder(of, masked); });
}

TEST(Transformer, DropoutFallsOnAttentionWeights) {
  // With values of one and identity projections, the output of a query is the sum of its weights.
  nn::MultiheadAttention layer(8, 2,
                               {.dropout = 0.25, .batch_first = true, .device = test_device()});
  const StateDict plain = {
      {"in_proj_weight", concat({zeros({16, 8}), eye(8)}, 0)},  // all keys are equal
      {"in_proj_bias", zeros({24})},
      {"out_proj.weight", eye(8)},
      {"out_proj.bias", zeros({8})}};
  layer.load_state_dict(plain);
  manual_seed(4);
  const std::int64_t keys = 40, queries = 200;
  const Tensor q = ones({8, queries, 8}, {.device = test_device()});
  const Tensor kv = ones({8, keys, 8}, {.device = test_device()});
  const Tensor sums = layer(q, kv, kv);
  const double mean = sums.mean().item(), spread = volta::var(sums.narrow(2, 0, 1)).item();
  EXPECT_NEAR(mean, 1, 0.01);
  EXPECT_NEAR(spread, 0.25 / 0.75 / static_cast<double>(keys), 0.001);
  EXPECT_GT(difference(sums, layer(q, kv, kv)), 0.01);  // other random numbers each time
  const nn::AttendedWithWeights both = layer.with_weights(q, kv, kv, {}, false);
  const double dropped = eq(both.weights, 0).to(DType::f32).mean().item();
  EXPECT_NEAR(dropped, 0.25, 0.01);
  EXPECT_LT(
      difference(both.weights.sum(-1),
                 both.output.unflatten(-1, {2, 4}).narrow(3, 0, 1).squeeze(3).transpose(1, 2)),
      1e-5);
  layer.eval();
  EXPECT_LT(difference(layer(q, kv, kv), ones({8, queries, 8}, {.device = test_device()})), 1e-5);
}

TEST(Transformer, BlockDropsWhileTrainingOnly) {
  manual_seed(5);
  nn::TransformerBlock block(16, 2, {.dropout = 0.5, .device = test_device()});
  const Tensor x = numbers({2, 5, 16});
  EXPECT_GT(difference(block(x), block(x)), 1e-2);
  block.eval();
  EXPECT_EQ(difference(block(x), block(x)), 0);
  // If everything is dropped, only the residual stream is left.
  nn::TransformerBlock none(16, 2, {.dropout = 1, .device = test_device()});
  EXPECT_EQ(difference(none(x), x), 0);
}

TEST(Transformer, QueriesThatSeeNothingGiveTheBias) {
  nn::MultiheadAttention layer(4, 2, {.batch_first = true, .device = test_device()});
  {
    const NoGrad no_grad;
    Tensor bias = layer.out_proj.bias;
    bias.fill_(0.5);
  }
  const Tensor x = numbers({1, 3, 4}).set_requires_grad();
  const Tensor hidden = full({3, 3}, true, {.device = test_device()});
  const nn::AttendOptions options = {.attn_mask = hidden};
  EXPECT_EQ(difference(layer(x, options), full({1, 3, 4}, 0.5, {.device = test_device()})), 0);
  const nn::AttendedWithWeights both = layer.with_weights(x, x, x, options);
  EXPECT_EQ(volta::abs(both.weights).max().item(), 0);
  both.output.sum().backward();
  EXPECT_EQ(volta::abs(x.grad()).max().item(), 0);
}

TEST(Transformer, MasksFitBothKindsOfAttention) {
  const TensorOptions here = {.device = test_device()};
  EXPECT_EQ(nn::causal_mask(2, here).to_vector<float>(), (std::vector<float>{0, -INFINITY, 0, 0}));
  const Tensor x = numbers({2, 2, 5, 4});
  EXPECT_LT(difference(scaled_dot_product_attention(x, x, x, {.mask = nn::causal_mask(5, here)}),
                       scaled_dot_product_attention(x, x, x, {.causal = true})),
            1e-6);
  nn::MultiheadAttention layer(4, 2, {.batch_first = true, .device = test_device()});
  const Tensor y = numbers({2, 5, 4});
  EXPECT_LT(
      difference(layer(y, {.attn_mask = nn::causal_mask(5, here)}), layer(y, {.is_causal = true})),
      1e-6);
  const std::vector<std::int64_t> lengths = {3, 1};
  const std::vector<bool> padding = {false, false, false, false, true, true};
  EXPECT_EQ(nn::padding_mask(lengths, 0, test_device()).to_vector<bool>(), padding);
  EXPECT_EQ(nn::padding_mask(from_vector(lengths, here), 3).to_vector<bool>(), padding);
  EXPECT_EQ(nn::padding_mask(lengths, 4).shape(), (Shape{2, 4}));
  EXPECT_EQ(message_of<ArgumentError>([&] { nn::padding_mask(lengths, 2); }),
            "padding_mask: a sequence of length 3 does not fit into 2");
  EXPECT_THROW(nn::causal_mask(2, {.dtype = DType::boolean}), DTypeError);
}

TEST(Transformer, RotaryProductsDependOnDistance) {
  for (const bool interleaved : {false, true}) {
    const nn::RotaryEmbedding rotary(8, {.interleaved = interleaved});
    const Tensor q = numbers({1, 8}, 1), k = numbers({1, 8}, 2);
    const auto product = [&](std::int64_t a, std::int64_t b) {
      return (rotary(q, a) * rotary(k, b)).sum().item();
    };
    EXPECT_NEAR(product(7, 3), product(4, 0), 1e-5);
    EXPECT_NEAR(product(9, 9), (q * k).sum().item(), 1e-5);
    EXPECT_GT(std::fabs(product(7, 3) - product(7, 4)), 1e-3);
    EXPECT_EQ(rotary(q.to(DType::bf16), 5).dtype(), DType::bf16);
  }
  // With rotary embeddings attention distinguishes orders, but not where the sequence begins.
  nn::TransformerBlock block(8, 2, {.rotary = nn::RotaryOptions{}, .device = test_device()});
  nn::TransformerBlock without(8, 2, {.device = test_device()});
  without.load_state_dict(block.state_dict());
  const Tensor x = numbers({1, 4, 8});
  EXPECT_LT(difference(without(x.flip(1)).flip(1), without(x)), 1e-5);
  EXPECT_GT(difference(block(x.flip(1)).flip(1), block(x)), 1e-4);
}

TEST(Transformer, PositionsAreAdded) {
  nn::SinusoidalEncoding sines(6);
  const Tensor x = numbers({2, 5, 6});
  const Tensor table = nn::sinusoidal_positions(5, 6, 10000, {.device = test_device()});
  EXPECT_LT(difference(sines(x) - x, table.expand({2, 5, 6})), 1e-6);
  EXPECT_EQ(nn::sinusoidal_positions(4, 5).shape(), (Shape{4, 5}));
  nn::LearnedEncoding rows(7, 6, {.device = test_device()});
  EXPECT_LT(difference(rows(x) - x, rows.weight->narrow(0, 0, 5).expand({2, 5, 6})), 1e-6);
  EXPECT_EQ(message_of<ShapeError>([&] { rows(numbers({1, 8, 6})); }),
            "LearnedEncoding: [1, 8, 6] has more than 7 positions");
  EXPECT_EQ(message_of<ShapeError>([&] { sines(numbers({2, 5})); }),
            "SinusoidalEncoding: expected [..., length, 6], got [2, 5]");
  EXPECT_EQ(message_of<ArgumentError>([] { nn::RotaryEmbedding(5); }),
            "RotaryEmbedding: dim must be even and positive, got 5");
}

// Every position has to name the first token, which only attention can find.
TEST(Transformer, LearnsToLookBack) {
  struct Model : nn::Module {
    nn::Embedding token{8, 16};
    nn::LearnedEncoding position{6, 16};
    nn::Sequential blocks;
    nn::LayerNorm norm{16};
    nn::Linear head{16, 8};
    Model() {
      blocks.append(nn::TransformerBlock(16, 2, {.causal = true, .dropout = 0.01}));
      add("token", token);
      add("position", position);
      add("blocks", blocks);
      add("norm", norm);
      add("head", head);
      to(test_device());
    }
    Tensor forward(const Tensor& ids) override { return head(norm(blocks(position(token(ids))))); }
  };
  manual_seed(11);
  Model model;
  optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
  double loss_now = 0;
  for (int step = 0; step < 150; ++step) {
    const Tensor ids = randint(8, {32, 6}, {.device = test_device()});
    const Tensor wanted = ids.narrow(1, 0, 1).expand({32, 6});
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(ids).flatten(0, 1), wanted.flatten());
    loss.backward();
    optimizer.step();
    loss_now = loss.item();
    if (step == 0) {
      EXPECT_GT(loss_now, 1.5);
    }
  }
  EXPECT_LT(loss_now, 0.1);
}

TEST(Transformer, ClonesAndHalves) {
  nn::TransformerBlock block(8, 2, {.causal = true, .dtype = DType::bf16, .device = test_device()});
  nn::TransformerBlock copy = nn::clone(block);
  const Tensor x = numbers({1, 3, 8}).to(DType::bf16);
  EXPECT_EQ(copy(x).dtype(), DType::bf16);
  EXPECT_EQ(copy(x).to_vector<float>(), block(x).to_vector<float>());
  const NoGrad no_grad;
  Tensor weight = copy.linear2.bias;
  weight += 1;
  EXPECT_GT(difference(copy(x), block(x)), 0.1);
}

TEST(Transformer, SummaryTellsOfItsParts) {
  nn::TransformerBlock block(8, 2);
  const nn::Summary summary = block.summary({2, 5, 8});
  EXPECT_EQ(summary.parameters, 4 * 8 * 8 + 4 * 8 + 2 * 8 * 32 + 32 + 8 + 4 * 8);
  ASSERT_FALSE(summary.rows.empty());
  for (const nn::Summary::Row& row : summary.rows) EXPECT_FALSE(row.outputs.empty()) << row.name;
  EXPECT_GT(summary.operations, 2 * 10 * (4 * 8 * 8 + 2 * 8 * 32));
}

TEST(Transformer, MistakesAreToldAtTheCall) {
  EXPECT_EQ(message_of<ArgumentError>([] { nn::MultiheadAttention(10, 3); }),
            "MultiheadAttention: embed_dim 10 must be a positive multiple of num_heads 3");
  EXPECT_EQ(message_of<ArgumentError>([] { nn::MultiheadAttention(4, 2, {.dropout = 1.5}); }),
            "MultiheadAttention: dropout must be in [0, 1], got 1.5");
  EXPECT_EQ(message_of<ArgumentError>([] { nn::TransformerBlock(4, 2, {.mlp_ratio = 0}); }),
            "TransformerBlock: a hidden layer of 0 times 4 is no size");
  EXPECT_EQ(message_of<ArgumentError>(
                [] { nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2), -1); }),
            "TransformerEncoder: num_layers must be 0 to 10000, got -1");
  nn::MultiheadAttention layer(4, 2);
  const Tensor x = zeros({5, 2, 4});
  EXPECT_EQ(message_of<ArgumentError>([&] { layer(Tensor()); }),
            "MultiheadAttention: query is not a tensor");
  EXPECT_EQ(message_of<ShapeError>([&] { layer(zeros({5, 2, 3})); }),
            "MultiheadAttention: query must be [length, batch, 4], got [5, 2, 3]");
  EXPECT_EQ(message_of<ShapeError>([&] { layer(x, zeros({5, 4}), x); }),
            "MultiheadAttention: key must be [length, batch, 4], got [5, 4]");
  EXPECT_EQ(
      message_of<ShapeError>([&] { layer(x, zeros({7, 3, 4}), zeros({7, 3, 4})); }),
      "MultiheadAttention: query [5, 2, 4], key [7, 3, 4] and value [7, 3, 4] differ in batch, "
      "or the latter in length");
  EXPECT_EQ(message_of<ShapeError>([&] { layer(x, {.attn_mask = zeros({5, 4})}); }),
            "MultiheadAttention: attn_mask must be [5, 5] or [4, 5, 5], got [5, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] { layer(x, {.key_padding_mask = zeros({5, 2})}); }),
            "MultiheadAttention: key_padding_mask must be [2, 5], got [5, 2]");
  EXPECT_EQ(message_of<DTypeError>(
                [&] { layer(x, {.attn_mask = zeros({5, 5}, {.dtype = DType::i64})}); }),
            "MultiheadAttention: attn_mask must be bool or floating, got i64");
}

}  // namespace
}  // namespace volta
