// CharLSTM: a language model over characters.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/dropout.h"
#include "volta/nn/embedding.h"
#include "volta/nn/linear.h"
#include "volta/nn/module.h"
#include "volta/nn/recurrent.h"

namespace volta::models {

struct CharLSTMOptions {
  std::int64_t embedding = 64;
  std::int64_t hidden = 256;
  std::int64_t layers = 2;
  double dropout = 0;  // between the layers and before the last linear layer
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// ids [batch, length] -> logits [batch, length, vocab].
class VOLTA_API CharLSTM : public nn::Module {
 public:
  explicit CharLSTM(std::int64_t vocab, CharLSTMOptions options = {});
  Tensor forward(const Tensor& ids) override;
  struct Output {
    Tensor logits;
    nn::LSTMState state;
  };
  // Continues from a state of earlier text, or from zeros if the state is empty.
  Output operator()(const Tensor& ids, const nn::LSTMState& state,
                    SourceLocation place = SourceLocation::here());
  using nn::Module::operator();

  nn::Embedding encoder;
  nn::LSTM lstm;
  nn::Dropout drop;
  nn::Linear decoder;
};

}  // namespace volta::models
