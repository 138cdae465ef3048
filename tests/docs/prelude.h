// The code that every fragment of a page is compiled with: the library, the variables that a
// fragment may request by `<!-- example: with ... -->`, and the loop that runs the fragments.
#pragma once

#include <volta/io/checkpoint.h>
#include <volta/io/npy.h>
#include <volta/io/state_dict_mapper.h>
#include <volta/io/summary_writer.h>
#include <volta/kernel_cache.h>
#include <volta/models.h>
#include <volta/system_info.h>
#include <volta/text/tokenizer.h>
#include <volta/volta.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#define VOLTA_DOCS_device const Device device = Device::best();
#define VOLTA_DOCS_x const Tensor x = randn({6, 4});
#define VOLTA_DOCS_y const Tensor y = randint(0, 3, {6});
#define VOLTA_DOCS_images const Tensor images = rand({4, 1, 28, 28});
#define VOLTA_DOCS_model \
  nn::Sequential model({{"fc1", nn::Linear(4, 8)}, {"act", nn::ReLU()}, {"fc2", nn::Linear(8, 3)}});
#define VOLTA_DOCS_optimizer optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
#define VOLTA_DOCS_dataset const data::TensorDataset dataset(randn({64, 4}), randint(0, 3, {64}));
#define VOLTA_DOCS_loader data::DataLoader loader(dataset, {.batch_size = 8, .shuffle = true});

namespace {

struct DocsExample {
  int line;
  void (*run)();
};

// Announces that the following standard output is printed by the block at this line of the page.
[[maybe_unused]] void docs_at(int line) {
  std::cout << std::flush;
  std::printf("@@ %d\n", line);
  std::fflush(stdout);
}

[[maybe_unused]] int docs_run(const char* page, const DocsExample* examples) {
  int failures = 0;
  for (; examples->run != nullptr; ++examples) {
    try {
      examples->run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s:%d: throws: %s\n", page, examples->line, error.what());
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
