// Writes profiles in Chrome's trace format: one process for the program with its threads, one for
// each device with a row for each compute stream and each copy direction, and counters for memory.
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "encoding/json.h"
#include "platform/files.h"
#include "volta/profiler.h"

namespace volta {
namespace {

constexpr int kProgram = 1;
constexpr int kCompute = 1, kUploads = 2, kDownloads = 3, kOtherStreams = 3;

int track_of(const ProfileEvent& event) {
  if (event.stream > 0) return kOtherStreams + event.stream;
  return event.kind == "upload" ? kUploads : event.kind == "download" ? kDownloads : kCompute;
}

class Trace {
 public:
  void add(const std::string& event) {
    text_ += text_.empty() ? "{\"traceEvents\":[\n" : ",\n";
    text_ += event;
  }
  void name(const char* what, int process, int track, const std::string& name) {
    add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                    process, track, io::json_quoted(name)));
  }
  std::string take() && {
    if (text_.empty()) text_ = "{\"traceEvents\":[";
    return std::move(text_) + "\n],\"displayTimeUnit\":\"ms\"}\n";
  }

 private:
  std::string text_;
};

}  // namespace

void Profile::save_trace(const std::string& path) const {
  Trace trace;
  trace.name("process_name", kProgram, 0, "program");
  std::map<std::string, int> processes;
  const auto process_of = [&](Device device) {
    const auto [found, is_new] =
        processes.try_emplace(to_string(device), kProgram + 1 + static_cast<int>(processes.size()));
    if (is_new) {
      trace.name("process_name", found->second, 0, found->first);
      trace.name("thread_name", found->second, kCompute, "computing");
      if (device.is_gpu()) {
        trace.name("thread_name", found->second, kUploads, "uploads");
        trace.name("thread_name", found->second, kDownloads, "downloads");
      }
    }
    return found->second;
  };
  std::map<int, bool> threads;
  std::set<std::pair<int, int>> streams;
  for (const ProfileEvent& event : events) {
    const bool is_host = event.kind == "host" || event.kind == "range";
    const int process = is_host ? kProgram : process_of(event.device);
    const int track = is_host ? event.thread : track_of(event);
    if (event.stream > 0 && streams.emplace(process, track).second)
      trace.name("thread_name", process, track, fmt::format("computing, stream {}", event.stream));
    if (is_host && threads.try_emplace(event.thread, true).second)
      trace.name("thread_name", kProgram, event.thread, fmt::format("thread {}", event.thread));
    std::string args;
    if (event.bytes > 0) args += fmt::format(R"("bytes":{})", event.bytes);
    if (event.operations > 0)
      args += fmt::format(R"({}"operations":{})", args.empty() ? "" : ",", event.operations);
    trace.add(fmt::format(
        R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
        io::json_quoted(event.what), io::json_quoted(event.kind), process, track, event.start * 1e6,
        event.seconds * 1e6, args));
  }
  for (const ProfileMemory& sample : memory) {
    trace.add(fmt::format(
        R"({{"ph":"C","name":"memory","pid":{},"ts":{:.3f},"args":{{"in use":{},"reserved":{}}}}})",
        process_of(sample.device), sample.at * 1e6, sample.in_use, sample.reserved));
  }
  const std::string text = std::move(trace).take();
  platform::AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace volta
