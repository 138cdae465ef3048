// An LSTM learns to write letter by letter.
//   char_lstm --text corpus.txt
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>

#include "options.h"

using namespace volta;

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"text", ""}, {"steps", "1500"}, {"hidden", "256"}, {"length", "64"}});
  const Device device = options.device();
  manual_seed(4);

  const std::string path = options.text("text");
  auto corpus = path.empty() ? data::CharCorpus::from_text(data::embedded_text())
                             : data::CharCorpus::from_file(path);
  models::CharLSTM model(corpus.vocab_size(),
                         {.hidden = options.number("hidden"), .device = device});
  optim::AdamW opt(model.parameters(), {.lr = 3e-3});
  const int steps = options.number("steps");
  optim::CosineLR schedule(opt, {.total_steps = steps, .warmup_steps = steps / 20});
  double average = 0;
  for (int step = 0; step < steps; ++step) {
    auto [x, y] =
        corpus.batch({.batch_size = 32, .length = options.number("length"), .device = device});
    opt.zero_grad();
    Tensor loss = cross_entropy(model(x).flatten(0, 1), y.flatten());
    loss.backward();
    nn::clip_grad_norm(model.parameters(), 1.0);
    opt.step();
    schedule.step();
    const double now = loss.item();
    average = step == 0 ? now : 0.95 * average + 0.05 * now;
    if (step % 100 == 0 || step + 1 == steps) std::printf("step %4d  loss %.4f\n", step, average);
  }

  // Generates one letter at a time; the state holds the text so far.
  NoGrad no_grad;
  model.eval();
  std::string text = "The ";
  nn::LSTMState state;
  std::vector<std::int64_t> ids = corpus.encode(text);
  for (int i = 0; i < 300; ++i) {
    const Tensor input =
        from_vector(ids, {1, static_cast<std::int64_t>(ids.size())}, {.device = device});
    auto [logits, next] = model(input, state);
    state = next;
    // Samples with the probabilities of the logits, by the Gumbel-max trick.
    const Tensor last = logits.narrow(1, logits.size(1) - 1, 1).flatten() / 0.7f;
    ids = {(last - (-rand_like(last).log()).log()).argmax().item<std::int64_t>()};
    text += corpus.decode(ids);
  }
  std::puts(text.c_str());
}
