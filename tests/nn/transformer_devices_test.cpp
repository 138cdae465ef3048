// A small GPT-2 on the test device compared with the CPU: logits, gradients, tokens with the cache.
// It has few kernels, so that it can run where compiling them is slow.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/models.h"
#include "volta/models/gpt2.h"
#include "volta/text/tokenizer.h"
#include "volta/volta.h"

namespace volta {
namespace {

using models::GPT2;

GPT2 small_model(Device device) {
  GPT2 model({.vocab_size = 23,
              .n_positions = 12,
              .n_embd = 8,
              .n_layer = 1,
              .n_head = 2,
              .resid_pdrop = 0,
              .embd_pdrop = 0,
              .attn_pdrop = 0,
              .initializer_range = 0.5});
  model.to(device);
  return model;
}

TEST(TransformerOnDevices, GivesTheCpusNumbers) {
  GPT2 here = small_model(test_device()), reference = small_model(Device::cpu());
  here.load_state_dict(reference.state_dict());
  const std::vector<std::int64_t> ids = {3, 14, 15, 9, 2, 6};
  const auto loss_of = [&](GPT2& model) {
    const Tensor row = from_vector(ids, {1, 6}, {.device = model.device()});
    return cross_entropy(model(row).flatten(0, 1), row.flatten());
  };
  const Tensor loss = loss_of(here), wanted = loss_of(reference);
  loss.backward();
  wanted.backward();
  EXPECT_NEAR(loss.item(), wanted.item(), 1e-5 * wanted.item());
  const auto mine = here.named_parameters(), theirs = reference.named_parameters();
  ASSERT_EQ(mine.size(), theirs.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const auto a = mine[i].second.grad().to_vector<double>();
    const auto b = theirs[i].second.grad().to_vector<double>();
    double largest = 0;
    for (const double value : b) largest = std::max(largest, std::fabs(value));
    for (std::size_t j = 0; j < a.size(); ++j)
      EXPECT_NEAR(a[j], b[j], 1e-5 * largest + 1e-9) << mine[i].first;
  }
}

TEST(TransformerOnDevices, SaysTheCpusWords) {
  GPT2 here = small_model(test_device()), reference = small_model(Device::cpu());
  here.load_state_dict(reference.state_dict());
  const auto tokens = [](GPT2& model) {
    model.eval();
    const Tensor row = full({1, 1}, 5, {.dtype = DType::i64, .device = model.device()});
    return model.generate(row, {.tokens = 8, .temperature = 0.9, .seed = 7})
        .to_vector<std::int64_t>();
  };
  EXPECT_EQ(tokens(here), tokens(reference));
}

}  // namespace
}  // namespace volta
