// CharLSTM.
#include "volta/models/char_lstm.h"

namespace volta::models {

CharLSTM::CharLSTM(std::int64_t vocab, CharLSTMOptions options)
    : encoder(vocab, options.embedding, {.dtype = options.dtype, .device = options.device}),
      lstm(options.embedding, options.hidden,
           {.num_layers = options.layers,
            .batch_first = true,
            .dropout = options.layers > 1 ? options.dropout : 0,
            .dtype = options.dtype,
            .device = options.device}),
      drop(options.dropout),
      decoder(options.hidden, vocab, {.dtype = options.dtype, .device = options.device}) {
  add("encoder", encoder);
  add("lstm", lstm);
  add("drop", drop);
  add("decoder", decoder);
}

Tensor CharLSTM::forward(const Tensor& ids) { return decoder(drop(lstm(encoder(ids)).output)); }

CharLSTM::Output CharLSTM::operator()(const Tensor& ids, const nn::LSTMState& state,
                                      SourceLocation place) {
  return call(place, [&]() -> Output {
    nn::LSTMOutput result = state.h.defined() ? lstm(encoder(ids), state) : lstm(encoder(ids));
    const Tensor logits = decoder(drop(result.output));
    called({ids}, {logits});
    return {logits, result.state};
  });
}

}  // namespace volta::models
