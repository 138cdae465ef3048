// Generates text with a GPT-2 checkpoint in Hugging Face's layout: a folder with config.json,
// model.safetensors and the tokenizer's files. The cache has a fixed capacity, so every token
// replays the same plan.
//   gpt2 --model gpt2/ --prompt "Once upon a time" --tokens 100
#include <volta/models.h>
#include <volta/text/tokenizer.h>
#include <volta/volta.h>

#include <chrono>
#include <cstdio>

#include "options.h"

using namespace volta;

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"model", "gpt2"},
                         {"prompt", "Once upon a time"},
                         {"tokens", "100"},
                         {"temperature", "80"},
                         {"top_k", "40"},
                         {"seed", "1"}});
  const Device device = options.device();
  const auto tokenizer = text::BPETokenizer::from_pretrained(options.text("model"));
  auto model = models::GPT2::from_pretrained(
      options.text("model"),
      {.dtype = device.is_gpu() ? DType::bf16 : DType::f32, .device = device});

  const GenerateOptions how{.prompt = options.text("prompt"),
                            .tokens = options.number("tokens"),
                            .temperature = options.number("temperature") / 100.0,
                            .top_k = options.number("top_k"),
                            .seed = options.number("seed")};
  const Counters before = counters();
  const auto start = std::chrono::steady_clock::now();
  std::puts(generate(model, tokenizer, how).c_str());
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  std::printf("%.1f tokens a second, %llu plans for %d tokens\n",
              static_cast<double>(how.tokens) / passed.count(),
              static_cast<unsigned long long>(counters().plans_built - before.plans_built),
              options.number("tokens"));
}
