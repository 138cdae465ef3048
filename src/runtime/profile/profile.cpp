// Turns a recording into a Profile: events, rows and a table.
#include <algorithm>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "backend/registry.h"
#include "runtime/profile/recorder.h"

namespace volta {
namespace profiling {
namespace {

double seconds(Time nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); }

const char* kind_of(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::Step:
    case Span::Kind::Run:
    case Span::Kind::Sample:
      return "kernel";
    case Span::Kind::Upload:
      return "upload";
    case Span::Kind::Download:
      return "download";
    case Span::Kind::Copy:
      break;
  }
  return "copy";
}

const char* words_of(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::Upload:
      return "from the host's memory";
    case Span::Kind::Download:
      return "to the host's memory";
    default:
      return "within the device";
  }
}

// An interval of library work in a thread. exclusive_times subtracts the intervals nested in each.
struct Nested {
  int thread = 0;
  Time begin = 0, end = 0;
  std::size_t host = kNone;  // index of the host event; kNone for a step of the CPU
  static constexpr std::size_t kNone = ~std::size_t{0};
};

std::vector<Time> exclusive_times(const Recording& recording) {
  std::vector<Nested> all;
  for (std::size_t i = 0; i < recording.host.size(); ++i) {
    const HostEvent& event = recording.host[i];
    if (!event.is_range) all.push_back({event.thread, event.begin, event.end, i});
  }
  for (const DeviceEvent& event : recording.spans) {
    if (event.thread != 0) all.push_back({event.thread, event.span.begin, event.span.end});
  }
  std::sort(all.begin(), all.end(), [](const Nested& a, const Nested& b) {
    return std::tuple(a.thread, a.begin, -a.end) < std::tuple(b.thread, b.begin, -b.end);
  });
  std::vector<Time> times(recording.host.size(), 0);
  std::vector<const Nested*> around;
  for (const Nested& event : all) {
    while (!around.empty() &&
           (around.back()->thread != event.thread || around.back()->end <= event.begin))
      around.pop_back();
    const Time length = event.end - event.begin;
    if (event.host != Nested::kNone) times[event.host] += length;
    if (!around.empty() && around.back()->host != Nested::kNone)
      times[around.back()->host] -= length;
    around.push_back(&event);
  }
  return times;
}

class Rows {
 public:
  ProfileRow& row(const std::string& kind, const std::string& what, Device device) {
    const auto [found, is_new] =
        rows_.try_emplace({to_string(device), kind, what}, ProfileRow{kind, what, device});
    return found->second;
  }
  std::vector<ProfileRow> take() {
    std::vector<ProfileRow> rows;
    for (auto& [key, row] : rows_) rows.push_back(std::move(row));
    std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
      return a.seconds > b.seconds;
    });
    return rows;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, ProfileRow> rows_;
};

}  // namespace

Profile make_profile(const Recording& recording) {
  Profile profile;
  profile.seconds = seconds(recording.end - recording.begin);
  profile.dropped = recording.dropped;
  Rows rows;
  std::map<ProfileRow*, double> least;  // seconds that each row would take at its device's peak
  for (const DeviceEvent& recorded : split_runs(recording.spans)) {
    const Span& span = recorded.span;
    ProfileEvent event{.kind = kind_of(span.kind),
                       .what = words_of(span.kind),
                       .device = recorded.device,
                       .thread = recorded.thread,
                       .stream = static_cast<int>(span.stream),
                       .start = seconds(span.begin - recording.begin),
                       .seconds = seconds(span.end - span.begin),
                       .bytes = span.bytes};
    const StepInfo* step = nullptr;
    if (span.kind == Span::Kind::Run) event.what = "all steps of a plan";
    if (span.kind == Span::Kind::Step) {
      event.what = "not known";
      if (const auto plan = recording.plans.find(span.plan);
          plan != recording.plans.end() && span.step < plan->second.size())
        step = &plan->second[span.step];
    }
    if (step != nullptr) {
      event.kind = step->kind;
      event.what = step->what;
      event.bytes = step->bytes_read + step->bytes_written;
      event.operations = step->operations;
    }
    ProfileRow& row = rows.row(event.kind, event.what, event.device);
    ++row.calls;
    row.seconds += event.seconds;
    row.bytes += event.bytes;
    row.operations += event.operations;
    if (step != nullptr) {
      row.memory_bound = step->memory_bound;
      least[&row] += step->seconds * step->peak_share;
    }
    profile.events.push_back(std::move(event));
  }
  const std::vector<Time> exclusive = exclusive_times(recording);
  for (std::size_t i = 0; i < recording.host.size(); ++i) {
    const HostEvent& recorded = recording.host[i];
    profile.events.push_back({.kind = recorded.is_range ? "range" : "host",
                              .what = recorded.what,
                              .thread = recorded.thread,
                              .start = seconds(recorded.begin - recording.begin),
                              .seconds = seconds(recorded.end - recorded.begin)});
    ProfileRow& row = rows.row(profile.events.back().kind, recorded.what, Device::cpu());
    ++row.calls;
    row.seconds += recorded.is_range ? profile.events.back().seconds : seconds(exclusive[i]);
  }
  for (const MemoryEvent& sample : recording.memory) {
    profile.memory.push_back(
        {sample.device, seconds(sample.at - recording.begin), sample.in_use, sample.reserved});
  }
  std::stable_sort(profile.events.begin(), profile.events.end(),
                   [](const ProfileEvent& a, const ProfileEvent& b) { return a.start < b.start; });
  for (const auto& [row, time] : least) {
    if (row->seconds > 0) row->peak_share = time / row->seconds;
  }
  profile.rows = rows.take();
  std::map<std::string, double> busy;
  for (ProfileRow& row : profile.rows) {
    const bool is_host = row.kind == "host" || row.kind == "range";
    const std::string device = to_string(row.device);
    if (!is_host && !busy.contains(device)) busy[device] = profile.busy_seconds(row.device);
    const double whole = is_host ? profile.seconds : busy[device];
    row.share = whole > 0 ? row.seconds / whole : 0;
  }
  return profile;
}

}  // namespace profiling

namespace {

bool is_device_work(const std::string& kind) { return kind != "host" && kind != "range"; }

std::string duration(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string rate(double amount, double seconds, const char* unit) {
  if (amount <= 0 || seconds <= 0) return "";
  const double value = amount / seconds;
  if (value >= 1e12) return fmt::format("{:.2f} T{}", value * 1e-12, unit);
  return fmt::format("{:.1f} G{}", value * 1e-9, unit);
}

// Escapes control characters as in a C string, because each row must be one line.
std::string printable(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == '\n') {
      line += "\\n";
    } else if (byte == '\t') {
      line += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F
      line += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      line += text[i];
    }
  }
  return line;
}

}  // namespace

double Profile::busy_seconds(Device device) const {
  // Events are sorted by start and may overlap; time in which a copy and a kernel overlap counts
  // once.
  double busy = 0, until = 0;
  for (const ProfileEvent& event : events) {
    if (!is_device_work(event.kind) || event.device != device) continue;
    const double end = event.start + event.seconds;
    busy += std::max(0.0, end - std::max(until, event.start));
    until = std::max(until, end);
  }
  return busy;
}

std::string Profile::table(int longest) const {
  std::string text = fmt::format("{} recorded", duration(seconds));
  if (dropped > 0) text += fmt::format(", {} events more than were kept", dropped);
  text += "\n";
  std::vector<Device> devices;
  for (const ProfileRow& row : rows) {
    if (is_device_work(row.kind) &&
        std::find(devices.begin(), devices.end(), row.device) == devices.end())
      devices.push_back(row.device);
  }
  for (const Device device : devices) {
    std::uint64_t calls = 0;
    std::size_t kinds = 0;
    for (const ProfileRow& row : rows) {
      if (!is_device_work(row.kind) || row.device != device) continue;
      calls += row.calls;
      ++kinds;
    }
    const double busy = busy_seconds(device);
    text += fmt::format("{}: at work for {} ({:.1f}%), {} launches, calls and copies\n",
                        to_string(device), duration(busy), seconds > 0 ? 100 * busy / seconds : 0,
                        calls);
    text += fmt::format("  {:>11} {:>6} {:>8} {:>11} {:>10} {:>12} {:>7}  {}\n", "time", "share",
                        "calls", "each", "memory", "arithmetic", "peak", "what");
    int shown = 0;
    double rest = 0;
    for (const ProfileRow& row : rows) {
      if (!is_device_work(row.kind) || row.device != device) continue;
      if (shown++ >= longest) {
        rest += row.seconds;
        continue;
      }
      const std::string peak = row.peak_share > 0 ? fmt::format("{:.0f}% {}", 100 * row.peak_share,
                                                                row.memory_bound ? "m" : "a")
                                                  : "";
      text += fmt::format("  {:>11} {:>5.1f}% {:>8} {:>11} {:>10} {:>12} {:>7}  {}: {}\n",
                          duration(row.seconds), 100 * row.share, row.calls,
                          duration(row.seconds / static_cast<double>(row.calls)),
                          rate(static_cast<double>(row.bytes), row.seconds, "B/s"),
                          rate(static_cast<double>(row.operations), row.seconds, "op/s"), peak,
                          row.kind, printable(row.what));
    }
    if (rest > 0) {
      text += fmt::format("  {:>11} {:>5.1f}% in {} others\n", duration(rest),
                          busy > 0 ? 100 * rest / busy : 0,
                          kinds - static_cast<std::size_t>(std::max(longest, 0)));
    }
  }
  bool head = false;
  for (const ProfileRow& row : rows) {
    if (is_device_work(row.kind)) continue;
    if (!head) text += "program\n";
    head = true;
    text += fmt::format("  {:>11} {:>5.1f}% {:>8} {:>11}  {}{}\n", duration(row.seconds),
                        100 * row.share, row.calls,
                        duration(row.seconds / static_cast<double>(row.calls)),
                        row.kind == "range" ? "range: " : "", printable(row.what));
  }
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> peaks;
  for (const ProfileMemory& sample : memory) {
    auto& [in_use, reserved] = peaks[to_string(sample.device)];
    in_use = std::max(in_use, sample.in_use);
    reserved = std::max(reserved, sample.reserved);
  }
  constexpr double kMiB = 1 << 20;
  for (const auto& [device, peak] : peaks) {
    text += fmt::format("memory of {}: at most {:.1f} MiB in use, {:.1f} MiB reserved\n", device,
                        static_cast<double>(peak.first) / kMiB,
                        static_cast<double>(peak.second) / kMiB);
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) {
  return out << profile.table();
}

}  // namespace volta
