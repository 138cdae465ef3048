// The common part of the measuring programs: blocks of steps with one wait at the end of each,
// counters over them, and the JSON that compare.py reads. bench/peers/measuring.py does the same
// for the peers.
#pragma once

#include <volta/volta.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Wall-clock time, or the CPU time of this process, which for one thread is the time on an
// otherwise idle machine.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;

  static inline bool processor_time = false;

  static time_point now() {
    timespec t = {};
    clock_gettime(processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
  }
};

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Timing {
  double median_ms = 0, min_ms = 0, max_ms = 0;
  std::int64_t steps = 0, blocks = 0;
};

constexpr int kBlocks = 25, kFewestBlocks = 5;
constexpr double kBlockSeconds = 0.02;

// The number of steps that take kBlockSeconds.
inline std::int64_t block_steps(double seconds_a_step) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(kBlockSeconds / seconds_a_step));
}
// The number of blocks; it is lower if a single step takes longer than a block should.
inline int block_count(double seconds_a_step) {
  return std::clamp(static_cast<int>(kBlocks * kBlockSeconds / seconds_a_step), kFewestBlocks,
                    kBlocks);
}

inline Timing timing_of(const std::vector<double>& times, std::int64_t block) {
  const int blocks = static_cast<int>(times.size());
  return {median(times), *std::min_element(times.begin(), times.end()),
          *std::max_element(times.begin(), times.end()), block * blocks, blocks};
}

// Milliseconds per step over `block` steps; wait() returns when all submitted work is done.
template <class Step, class Wait>
double time_block(Step&& step, Wait&& wait, std::int64_t block) {
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < block; ++i) step();
  wait();
  return seconds_since(start) / static_cast<double>(block) * 1e3;
}

// Times `blocks` blocks of `block` steps.
template <class Step, class Wait>
Timing time_blocks(Step&& step, Wait&& wait, int blocks, std::int64_t block) {
  std::vector<double> times;
  for (int b = 0; b < blocks; ++b) times.push_back(time_block(step, wait, block));
  return timing_of(times, block);
}

// Times several steps alternately, block by block, so that all of them see the same machine load.
template <class Step, class Wait>
std::vector<Timing> time_in_turn(std::vector<Step>& steps, Wait&& wait, int blocks,
                                 std::int64_t block) {
  std::vector<std::vector<double>> times(steps.size());
  for (int b = 0; b < blocks; ++b) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      times[i].push_back(time_block(steps[i], wait, block));
  }
  std::vector<Timing> timings;
  for (const std::vector<double>& own : times) timings.push_back(timing_of(own, block));
  return timings;
}

// The change of a counter between two readings.
inline std::uint64_t difference(const volta::Counters& before, const volta::Counters& after,
                                std::uint64_t volta::Counters::* field) {
  return after.*field - before.*field;
}

// The library's work in a number of steps.
struct Work {
  // Per step.
  double launches = 0, library_calls = 0, graph_launches = 0, submits = 0, transfers = 0;
  // Over all steps.
  std::uint64_t plans_built = 0, compilations = 0, allocations = 0;
};
inline Work work_between(const volta::Counters& before, const volta::Counters& after,
                         std::int64_t steps) {
  using volta::Counters;
  const auto total = [&](std::uint64_t Counters::* field) {
    return difference(before, after, field);
  };
  const auto per_step = [&](std::uint64_t Counters::* field) {
    return static_cast<double>(total(field)) / static_cast<double>(steps);
  };
  return {.launches = per_step(&Counters::launches),
          .library_calls = per_step(&Counters::library_calls),
          .graph_launches = per_step(&Counters::graph_launches),
          .submits = per_step(&Counters::submits),
          .transfers = per_step(&Counters::transfers),
          .plans_built = total(&Counters::plans_built),
          .compilations = total(&Counters::compilations),
          .allocations = total(&Counters::allocations)};
}

inline std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << static_cast<int>(c)
          << std::dec;
    } else {
      out << c;
    }
  }
  out << '"';
  return out.str();
}

// One JSON object, built field by field.
class JsonObject {
 public:
  JsonObject& add(const char* name, const std::string& value) { return put(name, quoted(value)); }
  JsonObject& add(const char* name, const char* value) { return put(name, quoted(value)); }
  JsonObject& add(const char* name, bool value) { return put(name, value ? "true" : "false"); }
  template <class Number>
  JsonObject& add(const char* name, Number value) {
    std::ostringstream text;
    text << std::setprecision(7) << value;
    return put(name, text.str());
  }
  JsonObject& add(const Timing& timing) {
    return add("median_ms", timing.median_ms)
        .add("min_ms", timing.min_ms)
        .add("max_ms", timing.max_ms)
        .add("steps", timing.steps)
        .add("blocks", timing.blocks);
  }
  JsonObject& put(const char* name, const std::string& json) {
    text_ += (text_.empty() ? "" : ", ") + quoted(name) + ": " + json;
    return *this;
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

inline std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// The command as typed, without the folder of the program.
inline std::string command_line(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i) {
    const char* slash = i == 0 ? std::strrchr(argv[0], '/') : nullptr;
    command += (i ? " " : "") + std::string(slash ? slash + 1 : argv[i]);
  }
  return command;
}

// Writes the results and the description of the machine. `kind` is "steps", "ops",
// "layers" or "changing".
inline void write_json(const std::string& path, const char* kind, const std::string& command,
                       volta::Device device, bool tf32, const std::vector<JsonObject>& results) {
  std::ofstream out(path);
  out << "{\n  \"bench\": " << quoted(kind) << ",\n  \"framework\": \"volta\",\n  \"versions\": "
      << JsonObject().add("volta", volta::version()).add("compiler", __VERSION__).text()
      << ",\n  \"date\": " << quoted(utc_now()) << ",\n  \"command\": " << quoted(command)
      << ",\n  \"device\": " << quoted(to_string(device))
      << ",\n  \"device_name\": " << quoted(device.name())
      << ",\n  \"threads\": " << volta::num_threads()
      << ",\n  \"clock\": " << quoted(Clock::processor_time ? "processor" : "wall")
      << ",\n  \"tf32\": " << (tf32 ? "true" : "false") << ",\n  \"results\": [";
  const char* separator = "\n    ";
  for (const JsonObject& result : results) {
    out << separator << result.text();
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
  out.close();
  if (!out) throw volta::IoError("cannot write " + path);
}

}  // namespace bench
