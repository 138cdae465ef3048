// Measures how fast a safetensors file reaches a device.
//   volta_load [device [megabytes]]
// Makes a file with the layout of a language model (one large table, matrices, small vectors),
// reads it a few times from the page cache, and prints GB/s from load() to the last byte on the
// device. On the CPU load() only maps the file, so the time is that of reading it once.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "volta/volta.h"

namespace {

using volta::Tensor;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

volta::StateDict model_of(std::int64_t megabytes) {
  volta::StateDict state;
  const std::int64_t width = 768;
  std::int64_t left = megabytes * 1'000'000 / 4;
  const auto add = [&](const std::string& name, std::int64_t rows) {
    state.add(name, volta::rand({rows, width}));
    left -= rows * width;
  };
  add("wte.weight", std::max<std::int64_t>(left * 3 / 10 / width, 1));
  int layer = 0;
  while (left > 0) {
    const std::string name = "h." + std::to_string(layer++);
    add(name + ".ln.weight", 1);
    add(name + ".attn.weight", std::min<std::int64_t>(3 * width, left / width + 1));
    if (left > 0) add(name + ".mlp.weight", std::min<std::int64_t>(4 * width, left / width + 1));
  }
  return state;
}

double checksum(const volta::StateDict& state) {
  double sum = 0;
  for (const auto& [name, tensor] : state) sum += tensor.sum().item();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const volta::Device device = argc > 1 ? volta::Device::parse(argv[1]) : volta::Device::best();
  const std::int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 500;
  const std::string path =
      (std::filesystem::temp_directory_path() / "volta_bench_load.safetensors").string();
  double expected = 0;
  {
    const volta::StateDict state = model_of(megabytes);
    expected = checksum(state);
    volta::save(state, path);
  }
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  volta::DeviceEntry& entry = volta::device_entry(device);
  std::vector<double> seconds;
  bool same = true;
  for (int round = 0; round < 6; ++round) {
    const auto start = Clock::now();
    const volta::StateDict state = volta::load(path, {.device = device});
    if (device.is_cpu()) checksum(state);
    entry.backend.synchronize(entry.index);
    seconds.push_back(seconds_since(start));
    const double difference = checksum(state) - expected;
    same = same && difference < 1e-4 * expected && difference > -1e-4 * expected;
  }
  std::filesystem::remove(path);
  std::printf("%s: %.0f MB in %.1f ms the first time, %.1f ms at best: %.1f GB/s%s\n",
              volta::to_string(device).c_str(), bytes * 1e-6, seconds[0] * 1e3,
              *std::min_element(seconds.begin(), seconds.end()) * 1e3,
              bytes * 1e-9 / *std::min_element(seconds.begin(), seconds.end()),
              same ? "" : "  THE VALUES DIFFER");
  return same ? 0 : 1;
}
