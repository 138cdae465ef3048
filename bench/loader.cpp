// The cost of data loading: drawing digits, assembling a batch of 256 on one thread, and whether
// two worker threads keep up with steps of one millisecond.
#include <volta/data.h>
#include <volta/volta.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "measuring.h"

using namespace volta;
using bench::Clock;
using bench::seconds_since;

namespace {

constexpr std::int64_t kBatch = 256;

void assemble(const data::ImageDataset& digits, Device device, int workers) {
  data::DataLoader loader(
      digits,
      {.batch_size = kBatch, .shuffle = true, .workers = workers, .device = device, .seed = 0});
  for (auto [x, y] : loader) (void)x;  // warms up memory, threads and pages
  loader.reset_stats();
  const auto start = Clock::now();
  for (int epoch = 0; epoch < 3; ++epoch)
    for (auto [x, y] : loader) (void)x;
  synchronize(device);
  const double seconds = seconds_since(start);
  const data::LoaderStats stats = loader.stats();
  std::printf("  workers %d: %.3f ms a batch, %.2f GB/s\n", workers,
              1e3 * seconds / static_cast<double>(stats.batches),
              static_cast<double>(stats.bytes) / seconds * 1e-9);
}

void feed(const data::ImageDataset& digits, Device device) {
  data::DataLoader loader(digits, {.batch_size = kBatch,
                                   .shuffle = true,
                                   .workers = 2,
                                   .prefetch = 4,
                                   .device = device,
                                   .seed = 0});
  const auto start = Clock::now();
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (auto [x, y] : loader)
      // Stands for the device's computation.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const data::LoaderStats stats = loader.stats();
  std::printf(
      "  steps of 1 ms, 2 workers: %lld batches in %.2f s, %lld waits (%.3f ms), first batches "
      "%.3f "
      "ms\n",
      static_cast<long long>(stats.batches), seconds_since(start),
      static_cast<long long>(stats.waits), 1e3 * stats.seconds_waited, 1e3 * stats.first_seconds);
}

}  // namespace

int main(int argc, char** argv) try {
  const Device device = Device::parse(argc > 1 ? argv[1] : "best");
  const auto start = Clock::now();
  const data::ImageDataset train = data::digits(data::Split::train),
                           test = data::digits(data::Split::test);
  std::printf("%lld digits drawn in %.2f s\n", static_cast<long long>(train.size() + test.size()),
              seconds_since(start));
  std::printf("batches of %lld x 28 x 28 to %s\n", static_cast<long long>(kBatch),
              to_string(device).c_str());
  for (const int workers : {0, 1, 2}) assemble(train, device, workers);
  feed(train, device);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
