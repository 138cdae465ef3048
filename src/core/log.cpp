// The log level, the handler behind it, and the set of one-time messages already sent.
#include "volta/log.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/log_once.h"
#include "core/text.h"
#include "platform/env.h"
#include "platform/fork.h"

namespace volta {
namespace {

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error", "off"};

std::optional<LogLevel> parse_level(std::string_view text) {
  for (int i = 0; i < 5; ++i)
    if (text == kLevelNames[i]) return static_cast<LogLevel>(i);
  return std::nullopt;
}

void write_to_stderr(LogLevel level, std::string_view message) {
  std::string line = std::string("volta: ") + kLevelNames[static_cast<int>(level)] + ": ";
  line.append(shown_text(message)).push_back('\n');
  // One call, so that lines of different threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

struct LogState {
  std::atomic<LogLevel> level{LogLevel::warning};
  platform::ForkMutex mutex;                  // guards the members below
  std::shared_ptr<const LogHandler> handler;  // null: write_to_stderr
  std::set<std::string, std::less<>> sent;

  LogState() {
    const auto text = platform::environment("VOLTA_LOG");
    if (!text) return;
    if (const auto parsed = parse_level(*text)) {
      level = *parsed;
    } else {
      write_to_stderr(LogLevel::warning,
                      "VOLTA_LOG: \"" + *text +
                          "\" is not a level; expected debug, info, warning, error or off");
    }
  }
};

// Never destroyed: static destructors of other libraries may still log.
LogState& state() {
  static LogState& instance = *new LogState;
  return instance;
}

}  // namespace

void set_log_handler(LogHandler handler) {
  auto fresh = handler ? std::make_shared<const LogHandler>(std::move(handler)) : nullptr;
  const std::lock_guard lock(state().mutex);
  state().handler.swap(fresh);
}

void set_log_level(LogLevel level) { state().level.store(level, std::memory_order_relaxed); }

LogLevel log_level() { return state().level.load(std::memory_order_relaxed); }

void log(LogLevel level, std::string_view message) {
  if (level == LogLevel::off || level < log_level()) return;
  // The handler runs without the lock, so it may log or replace itself.
  std::shared_ptr<const LogHandler> handler;
  {
    const std::lock_guard lock(state().mutex);
    handler = state().handler;
  }
  if (handler) {
    (*handler)(level, message);
  } else {
    write_to_stderr(level, message);
  }
}

void log_once(std::string_view key, LogLevel level, std::string_view message) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().sent.emplace(key).second) return;
  }
  log(level, message);
}

}  // namespace volta
