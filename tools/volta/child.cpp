// Processes, pipes and deadlines through POSIX calls.
#include "child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "volta/error.h"

namespace volta::cli {
namespace {

constexpr std::size_t kKept = 4096;  // bytes of its output that are kept

struct Pipe {
  int read = -1, write = -1;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw IoError(fmt::format("a pipe to a child process: {}", std::strerror(errno)));
  return {ends[0], ends[1]};
}

// Returns false at the end of the stream.
bool read_some(int descriptor, std::string& into) {
  std::array<char, 1024> bytes{};
  const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  into.append(bytes.data(), static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace

Child::Child(std::vector<std::string> arguments) {
  const Pipe reports = make_pipe(), prints = make_pipe();
  arguments.insert(arguments.begin(), "volta");
  arguments.push_back(std::to_string(reports.write));
  // The arguments are prepared before the fork, because the child of a process with threads must
  // not allocate.
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  process_ = ::fork();
  if (process_ == 0) {
    ::setpgid(0, 0);  // a new group, so that compilers started by the driver end with it
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(prints.write, STDOUT_FILENO);
    ::dup2(prints.write, STDERR_FILENO);
    ::fcntl(reports.write, F_SETFD, 0);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  const int failure = errno;
  ::close(reports.write);
  ::close(prints.write);
  reports_ = reports.read;
  prints_ = prints.read;
  if (process_ < 0) {
    ::close(reports_);
    ::close(prints_);
    throw IoError(fmt::format("a child process: {}", std::strerror(failure)));
  }
  ::setpgid(process_, process_);  // parent and child both do this, since either may run first
}

Child::~Child() {
  if (!status_) kill_it();
  ::close(reports_);
  if (prints_ >= 0) ::close(prints_);
}

void Child::kill_it() {
  ::kill(-process_, SIGKILL);
  how_it_ended();
}

Child::Report Child::next(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + patience;
  for (;;) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      Report report{State::line, unread_.substr(0, end)};
      unread_.erase(0, end + 1);
      return report;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      kill_it();
      return {State::late, {}};
    }
    std::array<pollfd, 2> waiting = {{{reports_, POLLIN, 0}, {prints_, POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) < 0) continue;
    if (waiting[1].revents != 0) {
      if (!read_some(prints_, printed_)) {
        ::close(prints_);
        prints_ = -1;
      }
      if (printed_.size() > kKept) printed_.erase(0, printed_.size() - kKept);
    }
    // Its printed output is read before its end is reported.
    if (waiting[0].revents != 0 && (waiting[1].revents & POLLIN) == 0 &&
        !read_some(reports_, unread_))
      return {State::ended, {}};
  }
}

std::string Child::how_it_ended() {
  if (!status_) {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    status_ = status;
  }
  if (WIFSIGNALED(*status_))
    return fmt::format("the process crashed: {}", ::strsignal(WTERMSIG(*status_)));
  if (WEXITSTATUS(*status_) != 0)
    return fmt::format("the process exited with {}", WEXITSTATUS(*status_));
  return {};
}

std::string Child::last_words() const {
  std::string text = printed_;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace volta::cli
