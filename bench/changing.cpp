// Training steps whose sizes change: milliseconds of a size seen before, of a size that is new, and
// of the first step in a fresh state.
//   volta_changing [--device cpu|cuda:0|opencl:0] [--steps N] [--filter TEXT] [--json FILE]
// The columns "plans" and "compiled" count what was built during the steps at new sizes.
// bench/peers/torch_changing.py measures the same in PyTorch.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "changing_steps.h"
#include "measuring.h"
#include "volta/volta.h"

namespace {

using namespace volta;
using bench::Step;

struct Options {
  Device device = Device::cpu();
  int steps = 30;
  std::string filter, json, command;
};

// What is measured of one row. A row without known sizes has no `known`.
struct Changed {
  double known = 0, fresh = 0, first = 0;
  std::size_t steps = 0;
  std::uint64_t plans = 0, compiled = 0;
};

class Table {
 public:
  explicit Table(const Options& options) : options_(options) {
    std::printf(
        "| steps                                | known, ms | new, ms   | ratio | first, ms | "
        "plans | compiled |\n");
    std::printf(
        "| ------------------------------------ | --------: | --------: | ----: | --------: | "
        "----: | -------: |\n");
  }

  // Measures the row unless the filter leaves it out.
  template <class Measure>
  void add(const std::string& row, const Measure& measure) {
    if (row.find(options_.filter) == std::string::npos) return;
    empty_cache(options_.device);
    const Changed result = measure();
    std::printf("| %-36s | %9.3f | %9.3f | %5.2f | %9.2f | %5llu | %8llu |\n", row.c_str(),
                result.known, result.fresh, result.fresh / result.known, result.first,
                static_cast<unsigned long long>(result.plans),
                static_cast<unsigned long long>(result.compiled));
    std::fflush(stdout);
    bench::JsonObject json;
    json.add("workload", row).add("variant", "volta").add("median_ms", result.fresh);
    json.add("known_ms", result.known).add("first_ms", result.first).add("steps", result.steps);
    json.add("plans_built", result.plans).add("compilations", result.compiled);
    results_.push_back(json);
    if (options_.json.empty()) return;
    bench::write_json(options_.json, "changing", options_.command, options_.device, false,
                      results_);
  }

 private:
  const Options& options_;
  std::vector<bench::JsonObject> results_;
};

double milliseconds(const Step& step, std::int64_t size, Device device) {
  const auto start = bench::Clock::now();
  step(size);
  synchronize(device);
  return bench::seconds_since(start) * 1e3;
}

// Measures each size when it is new and again at once. The first ones are warm-up.
Changed measure_sizes(std::vector<std::int64_t> sizes, std::size_t warm, const Options& options,
                      const Step& step) {
  Changed result;
  result.first = milliseconds(step, sizes.back(), options.device);
  sizes.pop_back();
  for (std::size_t n = 0; n < warm; ++n) step(sizes[n]);
  std::vector<double> fresh, known;
  for (std::size_t n = warm;
       n < sizes.size() && fresh.size() < static_cast<std::size_t>(options.steps); ++n) {
    const Counters before = counters();
    fresh.push_back(milliseconds(step, sizes[n], options.device));
    const Counters after = counters();
    result.plans += after.plans_built - before.plans_built;
    result.compiled += after.compilations - before.compilations;
    step(sizes[n]);  // GPUs capture a graph at the third run
    step(sizes[n]);
    known.push_back(milliseconds(step, sizes[n], options.device));
  }
  result.steps = fresh.size();
  result.fresh = bench::median(fresh);
  result.known = bench::median(known);
  return result;
}

// Sizes from `least` up to `most`, `apart` from each other, each once, in random order. The first
// ones are warm-up, which plans each order of magnitude.
Changed measure_range(std::int64_t least, std::int64_t most, std::int64_t apart,
                      const Options& options, const Step& step) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = least; size <= most; size += apart) sizes.push_back(size);
  std::shuffle(sizes.begin(), sizes.end(), std::mt19937(1));
  return measure_sizes(sizes, std::min<std::size_t>(sizes.size() / 3, 24), options, step);
}

// An epoch of batches of 64 and a shorter last one, which is new: the only other size.
Changed measure_last_batch(const Options& options) {
  Changed result;
  std::vector<double> fresh, known, first;
  for (const std::int64_t last : {37, 5, 61, 18, 50}) {
    empty_cache(options.device);
    const Step step = bench::mlp(options.device);
    first.push_back(milliseconds(step, 64, options.device));
    for (int n = 0; n < 5; ++n) step(64);
    const Counters before = counters();
    fresh.push_back(milliseconds(step, last, options.device));
    const Counters after = counters();
    result.plans += after.plans_built - before.plans_built;
    result.compiled += after.compilations - before.compilations;
    step(64);
    step(last);
    known.push_back(milliseconds(step, last, options.device));
  }
  result.steps = fresh.size();
  result.first = bench::median(first);
  result.fresh = bench::median(fresh);
  result.known = bench::median(known);
  return result;
}

// First steps in a fresh state: all that is cached was dropped, and the optimizer has no state.
Changed measure_first(const Options& options, int layers) {
  constexpr std::int64_t kLength = 64;
  Changed result;
  std::vector<double> first, known;
  for (int n = 0; n < 3; ++n) {
    empty_cache(options.device);
    const Step step = bench::transformer(options.device, {.layers = layers});
    const Counters before = counters();
    first.push_back(milliseconds(step, kLength, options.device));
    const Counters after = counters();
    result.plans += after.plans_built - before.plans_built;
    result.compiled += after.compilations - before.compilations;
    for (int again = 0; again < 4; ++again) step(kLength);
    known.push_back(milliseconds(step, kLength, options.device));
  }
  result.steps = first.size();
  result.first = result.fresh = bench::median(first);
  result.known = bench::median(known);
  return result;
}

// A network whose branches are left out at random, with a probability of 0.2: "known" are steps of
// the whole network, "new" are steps of random parts of it.
Changed measure_depth(const Options& options, int blocks) {
  const bench::DepthStep step = bench::stochastic_depth(options.device, blocks);
  std::mt19937 draw(1);
  const std::vector<bool> all(static_cast<std::size_t>(2 * blocks), true);
  const auto some = [&] {
    std::vector<bool> depth;
    for (std::size_t n = 0; n < all.size(); ++n) depth.push_back(draw() % 10 >= 2);
    return depth;
  };
  const auto timed = [&](const std::vector<bool>& depth) {
    return milliseconds([&](std::int64_t) { step(depth); }, 0, options.device);
  };
  Changed result;
  result.first = timed(all);
  for (int n = 0; n < 4; ++n) step(all);
  std::vector<double> known, fresh;
  for (int n = 0; n < options.steps; ++n) known.push_back(timed(all));
  for (int n = 0; n < 24; ++n) step(some());
  const Counters before = counters();
  for (int n = 0; n < options.steps; ++n) fresh.push_back(timed(some()));
  const Counters after = counters();
  result.plans = after.plans_built - before.plans_built;
  result.compiled = after.compilations - before.compilations;
  result.steps = fresh.size();
  result.known = bench::median(known);
  result.fresh = bench::median(fresh);
  return result;
}

// x[i].item() for many i, once for each, and then again for each.
Changed measure_reads(const Options& options, int count) {
  const Tensor x = rand({count}, {.device = options.device}).eval();
  double sum = 0;
  const auto read_all = [&] {
    const auto start = bench::Clock::now();
    for (int i = 0; i < count; ++i) sum += x[i].item();
    return bench::seconds_since(start) * 1e3 / count;
  };
  Changed result;
  const auto start = bench::Clock::now();
  sum += x[0].item();
  result.first = bench::seconds_since(start) * 1e3;
  const Counters before = counters();
  result.fresh = read_all();
  const Counters after = counters();
  result.plans = after.plans_built - before.plans_built;
  result.compiled = after.compilations - before.compilations;
  result.known = read_all();
  result.steps = static_cast<std::size_t>(count);
  if (!(sum >= 0)) throw Error("the elements read are not those of rand()");
  return result;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw bench::UsageError("no value for " + name);
    if (name == "--device") {
      options.device = Device::parse(argv[i + 1]);
    } else if (name == "--steps") {
      options.steps = std::atoi(argv[i + 1]);
    } else if (name == "--filter") {
      options.filter = argv[i + 1];
    } else if (name == "--json") {
      options.json = argv[i + 1];
    } else {
      throw bench::UsageError("unknown option " + name);
    }
  }
  options.command = bench::command_line(argc, argv);
  return options;
}

void run(const Options& options) {
  const Device device = options.device;
  manual_seed(1);
  Table table(options);
  const auto range = [&](const std::string& row, std::int64_t least, std::int64_t most,
                         std::int64_t apart, auto make) {
    table.add(row, [&] { return measure_range(least, most, apart, options, make()); });
  };
  range("MLP, batches of 1 to 64", 1, 64, 1, [&] { return bench::mlp(device); });
  table.add("MLP, last batch of an epoch", [&] { return measure_last_batch(options); });
  range("CNN, batches of 1 to 64", 1, 64, 1, [&] { return bench::cnn(device); });
  range("CNN, images of 20 to 84", 20, 84, 1, [&] { return bench::image_cnn(device); });
  for (const int layers : {2, 6, 12}) {
    range("transformer of " + std::to_string(layers) + ", lengths 20 to 120", 20, 120, 1,
          [&] { return bench::transformer(device, {.layers = layers}); });
  }
  if (device.is_gpu()) {
    for (const bench::TransformerSize& size :
         {bench::TransformerSize{.layers = 2, .width = 128, .batch = 32, .in_bf16 = true},
          bench::TransformerSize{.layers = 4, .width = 256, .batch = 32, .in_bf16 = true}}) {
      range("GPT of " + std::to_string(size.layers) + " x " + std::to_string(size.width) +
                ", batch 32, bf16, 20 to 200",
            20, 200, 1, [&] { return bench::transformer(device, size); });
    }
  }
  range("attention over 2 to 512 keys", 2, 512, 1, [&] { return bench::attention(device); });
  range("beam search, 16 beams to 1", 1, 60, 1, [&] { return bench::beam_search(device); });
  range("tree of random shape", 1, 60, 1, [&] { return bench::random_tree(device); });
  range("LSTM 2 x 64, lengths 100 to 800", 100, 800, 50, [&] { return bench::lstm(device); });
  for (const int layers : {2, 6, 12, 24}) {
    table.add("transformer of " + std::to_string(layers) + ", first step",
              [&] { return measure_first(options, layers); });
  }
  table.add("transformer of 12, stochastic depth", [&] { return measure_depth(options, 12); });
  table.add("x[i].item() for 5,000 i", [&] { return measure_reads(options, 5000); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const bench::UsageError& error) {
    std::fprintf(stderr,
                 "%s\nusage: volta_changing [--device cpu|cuda:0|opencl:0] [--steps N] "
                 "[--filter TEXT] [--json FILE]\n",
                 error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
