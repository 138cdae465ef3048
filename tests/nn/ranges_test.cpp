// Numbers that determine the size of a loop or a model are bounded: absurd ones are immediate
// errors that name the argument and its range, and take neither time nor memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/peak_memory.h"
#include "volta/models.h"
#include "volta/nn/kv_cache.h"
#include "volta/text/generate.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 32, kVast = std::int64_t{1} << 62,
                       kLargest = std::numeric_limits<std::int64_t>::max();

// Returns the message of the ArgumentError that `make` throws without allocating much memory.
template <class Make>
std::string refused(const Make& make) {
  std::string message = "nothing was thrown";
  const std::uint64_t peak = peak_bytes([&] {
    try {
      make();
    } catch (const ArgumentError& error) {
      message = error.what();
    } catch (const Error& error) {
      message = std::string("another error: ") + error.what();
    }
  });
  EXPECT_LT(peak, 8 * kMiB) << message;
  return message;
}

TEST(Ranges, TransformerEncoder) {
  const nn::TransformerEncoderLayer layer(4, 2);
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{10'001}, kHuge, kLargest}) {
    EXPECT_EQ(refused([&] { nn::TransformerEncoder(layer, count); }),
              "TransformerEncoder: num_layers must be 0 to 10000, got " + std::to_string(count));
  }
  EXPECT_EQ(nn::TransformerEncoder(layer, 3).layers.size(), 3u);
  EXPECT_TRUE(nn::TransformerEncoder(layer, 0).parameters().empty());
}

TEST(Ranges, RecurrentLayers) {
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{0}, kHuge, kLargest}) {
    const std::string wrong = ": num_layers must be 1 to 10000, got " + std::to_string(count);
    EXPECT_EQ(refused([&] { nn::LSTM(3, 4, {.num_layers = count}); }), "LSTM" + wrong);
    EXPECT_EQ(refused([&] { nn::GRU(3, 4, {.num_layers = count}); }), "GRU" + wrong);
    EXPECT_EQ(refused([&] { nn::RNN(3, 4, {.num_layers = count}); }), "RNN" + wrong);
    EXPECT_EQ(refused([&] { models::CharLSTM(10, {.layers = count}); }), "LSTM" + wrong);
  }
  // The size of four gates of 2^62 would overflow to 0.
  const std::string wrong =
      ": hidden_size must be 1 to 1099511627776, got " + std::to_string(kVast);
  EXPECT_EQ(refused([] { nn::LSTM(3, kVast); }), "LSTM" + wrong);
  EXPECT_EQ(refused([] { nn::LSTMCell(3, kVast); }), "LSTMCell" + wrong);
}

TEST(Ranges, Attention) {
  EXPECT_EQ(
      refused([] { nn::MultiheadAttention(kVast, kHuge); }),
      "MultiheadAttention: embed_dim must be 1 to 1099511627776, got " + std::to_string(kVast));
  for (const std::int64_t layers : {std::int64_t{10'001}, kHuge, kLargest}) {
    EXPECT_EQ(refused([&] { nn::KVCache(layers, 1, 1); }),
              "KVCache: layers must be 1 to 10000, got " + std::to_string(layers));
  }
}

TEST(Ranges, Gpt2) {
  const auto made = [](models::GPT2Config config) {
    return refused([&] { models::GPT2{config}; });
  };
  for (const std::int64_t layers : {std::int64_t{-1}, std::int64_t{0}, kHuge, kLargest}) {
    EXPECT_EQ(made({.n_layer = layers}),
              "GPT2: n_layer must be 1 to 10000, got " + std::to_string(layers));
  }
  EXPECT_EQ(made({.n_embd = kVast}),
            "GPT2: n_embd must be 1 to 262144, got " + std::to_string(kVast));
}

TEST(Ranges, ResNet) {
  using models::ResNet;
  const models::ResNetOptions small = {.classes = 2, .width = 2};
  for (const int depth : {-1, 0, 1001, std::numeric_limits<int>::max()}) {
    EXPECT_EQ(refused([&] { ResNet(ResNet::Block::basic, {1, 1, depth, 1}, small); }),
              "ResNet: depths[2] must be 1 to 1000, got " + std::to_string(depth));
  }
  for (const std::int64_t width : {std::int64_t{-1}, std::int64_t{0}, kHuge, kVast}) {
    EXPECT_EQ(refused([&] { models::resnet50({.classes = 2, .width = width}); }),
              "ResNet: width must be 1 to 16777216, got " + std::to_string(width));
  }
}

TEST(Ranges, OtherModels) {
  for (const int layers : {-1, 0, 12, std::numeric_limits<int>::max()}) {
    EXPECT_EQ(refused([&] { models::VGG{layers}; }),
              "VGG: 11, 13, 16 or 19 layers, got " + std::to_string(layers));
  }
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 17, kVast}) {
    const std::string wrong =
        "DCGAN: size must be 28 or a power of two from 16 to 65536, got " + std::to_string(size);
    EXPECT_EQ(refused([&] { models::DCGANGenerator({.size = size}); }), wrong);
    EXPECT_EQ(refused([&] { models::DCGANDiscriminator({.size = size}); }), wrong);
  }
  for (const std::int64_t features : {std::int64_t{-1}, std::int64_t{0}, kHuge, kVast}) {
    EXPECT_EQ(refused([&] { models::DCGANGenerator({.features = features}); }),
              "DCGAN: features must be 1 to 16777216, got " + std::to_string(features));
  }
  for (const std::int64_t factor : {std::int64_t{-1}, std::int64_t{0}, kHuge, kVast}) {
    EXPECT_EQ(refused([&] { models::ESPCN{factor}; }),
              "ESPCN: factor must be 1 to 1024, got " + std::to_string(factor));
  }
  EXPECT_EQ(refused([] { models::ESPCN(2, {.channels = kVast}); }),
            "ESPCN: channels must be 1 to 16777216, got " + std::to_string(kVast));
}

TEST(Ranges, GeneratedTokens) {
  const auto none = [](const Tensor& ids) { return ids; };
  for (const std::int64_t count : {std::int64_t{-1}, kHuge + 1, kLargest}) {
    EXPECT_EQ(refused([&] { text::continue_tokens(none, {1}, Device::cpu(), {.tokens = count}); }),
              "generate: tokens must be 0 to 4294967296, got " + std::to_string(count));
    EXPECT_EQ(refused([&] { text::continue_tokens(none, {1}, Device::cpu(), {.context = count}); }),
              "generate: context must be 1 to 4294967296, got " + std::to_string(count));
  }
}

TEST(Ranges, Samplers) {
  for (const std::int64_t count : {std::int64_t{-1}, kHuge + 1, kLargest}) {
    EXPECT_EQ(refused([&] { data::WeightedSampler({1, 2}, count); }),
              "WeightedSampler: count must be 0 to 4294967296, got " + std::to_string(count));
  }
}

// The values of a checkpoint come from a file.
TEST(Ranges, StepsOfASchedule) {
  nn::Linear layer(1, 1);
  optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
  optim::CosineLR schedule(optimizer, {.total_steps = 10});
  for (const double steps : {-1.0, 1.5, 1e300, std::numeric_limits<double>::infinity()}) {
    StateDict state;
    for (const auto& [name, value] : schedule.state_dict())
      state.add(name, name == "last_epoch" ? scalar(steps, {.dtype = DType::f64}) : value);
    EXPECT_NE(refused([&] {
                schedule.load_state_dict(state);
              }).find("last_epoch must be a whole number from 0 to 2^53, got "),
              std::string::npos)
        << steps;
  }
}

}  // namespace
}  // namespace volta
