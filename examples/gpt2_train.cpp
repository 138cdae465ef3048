// Trains a small GPT-2 on the bytes of a text and saves it in Hugging Face's layout, so that the
// example gpt2 can read it like the large models.
//   gpt2_train --folder small_gpt2 --text corpus.txt
//   gpt2 --model small_gpt2 --prompt "ROMEO:"
#include <volta/models.h>
#include <volta/text/tokenizer.h>
#include <volta/volta.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "options.h"

using namespace volta;

namespace {

// Writes a byte as GPT-2's vocabularies do: printable bytes unchanged, others as characters from
// U+0100 on.
std::string written(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code == '"' || code == '\\') return std::string("\\") + static_cast<char>(code);
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Writes a vocabulary of all bytes, without merges.
void write_tokenizer(const std::filesystem::path& folder) {
  std::ofstream vocab(folder / "vocab.json");
  vocab << '{';
  for (int byte = 0; byte < 256; ++byte) vocab << '"' << written(byte) << "\": " << byte << ", ";
  vocab << "\"<|endoftext|>\": 256}\n";
  std::ofstream(folder / "merges.txt") << "#version: 0.2\n";
}

void write_config(const std::filesystem::path& folder, const models::GPT2Config& config) {
  std::ofstream(folder / "config.json")
      << "{\n  \"model_type\": \"gpt2\",\n  \"vocab_size\": " << config.vocab_size
      << ",\n  \"n_positions\": " << config.n_positions << ",\n  \"n_embd\": " << config.n_embd
      << ",\n  \"n_layer\": " << config.n_layer << ",\n  \"n_head\": " << config.n_head
      << ",\n  \"resid_pdrop\": " << config.resid_pdrop
      << ",\n  \"embd_pdrop\": " << config.embd_pdrop
      << ",\n  \"attn_pdrop\": " << config.attn_pdrop << "\n}\n";
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"folder", "small_gpt2"},
                         {"text", ""},
                         {"steps", "2000"},
                         {"layers", "4"},
                         {"width", "192"},
                         {"length", "128"}});
  const Device device = options.device();
  manual_seed(6);

  const std::filesystem::path folder = options.text("folder");
  std::filesystem::create_directories(folder);
  write_tokenizer(folder);
  const auto tokenizer = text::BPETokenizer::from_pretrained(folder.string());
  std::string text(data::embedded_text());
  if (const std::string path = options.text("text"); !path.empty()) {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto tokens = data::Tokens::from_values(tokenizer.encode(text));

  const models::GPT2Config config{.vocab_size = tokenizer.vocab_size(),
                                  .n_positions = 256,
                                  .n_embd = options.number("width"),
                                  .n_layer = options.number("layers"),
                                  .n_head = options.number("width") / 32,
                                  .resid_pdrop = 0,
                                  .embd_pdrop = 0,
                                  .attn_pdrop = 0};
  models::GPT2 model(config, {.device = device});
  optim::AdamW opt(model.parameters(), {.lr = 3e-3, .weight_decay = 0.1});
  const int steps = options.number("steps");
  optim::CosineLR schedule(opt, {.total_steps = steps, .warmup_steps = steps / 20});
  double average = 0;
  for (int step = 0; step < steps; ++step) {
    auto [x, y] =
        tokens.batch({.batch_size = 16, .length = options.number("length"), .device = device});
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

  write_config(folder, config);
  save(model.state_dict(), (folder / "model.safetensors").string());
}
