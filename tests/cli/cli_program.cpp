#include "cli_program.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace volta::cli {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The environment of the tests themselves, and a plain locale.
std::vector<std::string> environment_of(const How& how) {
  std::map<std::string, std::string> variables = {{"LANG", "C.UTF-8"}, {"TERM", "xterm"}};
  for (const char* name : {"PATH", "HOME", "VOLTA_CACHE_DIR", "POCL_CACHE_DIR", "OMP_WAIT_POLICY",
                           "LSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS", "VOLTA_CUDA_LIBS"})
    if (const char* value = std::getenv(name)) variables[name] = value;
  for (const auto& [name, value] : how.environment) variables[name] = value;
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables)
    if (!value.empty()) texts.push_back(name + "=" + value);
  return texts;
}

[[noreturn]] void become_volta(const std::vector<std::string>& arguments, const How& how) {
  std::vector<std::string> texts = {"volta"};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = environment_of(how);
  std::vector<char*> argv, envp;
  for (std::string& text : texts) argv.push_back(text.data());
  for (std::string& text : variables) envp.push_back(text.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  if (how.largest_file > 0) {
    const rlimit limit{how.largest_file, how.largest_file};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (how.without_output) ::close(STDOUT_FILENO);
  if (how.ignore_sigpipe) ::signal(SIGPIPE, SIG_IGN);
  constexpr uid_t kNobody = 65534;
  if (how.as_nobody && ::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))
    ::_exit(126);
  ::execve(VOLTA_PROGRAM, argv.data(), envp.data());
  ::_exit(127);
}

// Waits for the process; the caller fills in the output.
Ended end_of(pid_t process) {
  int status = 0;
  rusage used{};
  ::wait4(process, &status, 0, &used);
  Ended ended;
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  ended.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
  return ended;
}

}  // namespace

std::string source_tree() { return VOLTA_SOURCE_TREE; }
std::string driver_folder() { return VOLTA_DRIVER_FOLDER; }
std::string program() { return VOLTA_PROGRAM; }
std::string shim() { return VOLTA_FILE_SHIM; }

Program::Program() {
  std::string name = (std::filesystem::temp_directory_path() / "volta_cli_XXXXXX").string();
  folder_ = mkdtemp(name.data());
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
}
Program::~Program() { std::filesystem::remove_all(folder_); }

std::string Program::put(const std::string& name, const std::string& bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

// Writes a file with the standard input.
std::string Program::input_of(const How& how) const {
  return how.input.empty() ? "/dev/null" : put(".in", how.input);
}

Ended Program::volta_during(const std::vector<std::string>& arguments,
                            const std::function<void(pid_t, int)>& during, const How& how) const {
  const std::string err = path(".err");
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) {
    ADD_FAILURE() << "no pipe can be made";
    return {};
  }
  const pid_t process = ::fork();
  if (process == 0) {
    const int in = ::open(input_of(how).c_str(), O_RDONLY);
    const int e = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(in, STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(e, STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    become_volta(arguments, how);
  }
  ::close(ends[1]);
  during(process, ends[0]);
  Ended ended = end_of(process);
  ended.err = content(err);
  std::filesystem::remove(err);
  return ended;
}

Ended Program::volta(const std::vector<std::string>& arguments, const How& how) const {
  const std::string out = how.out_file.empty() ? path(".out") : how.out_file, err = path(".err");
  const pid_t process = ::fork();
  if (process == 0) {
    const int in = ::open(input_of(how).c_str(), O_RDONLY);
    const int o = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int e = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(in, STDIN_FILENO);
    ::dup2(o, STDOUT_FILENO);
    ::dup2(e, STDERR_FILENO);
    become_volta(arguments, how);
  }
  Ended ended = end_of(process);
  ended.err = content(err);
  if (how.out_file.empty()) {
    ended.out = content(out);
    std::filesystem::remove(out);
  }
  std::filesystem::remove(err);
  return ended;
}

bool Program::has_terminals() {
  int terminal = -1, line = -1;
  if (::openpty(&terminal, &line, nullptr, nullptr, nullptr) != 0) return false;
  ::close(terminal);
  ::close(line);
  return true;
}

Ended Program::volta_on_terminal(const std::vector<std::string>& arguments, int columns,
                                 const How& how) const {
  const winsize size{
      .ws_row = 40, .ws_col = static_cast<unsigned short>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (process == 0) become_volta(arguments, how);
  Ended ended;
  if (process < 0) {
    ADD_FAILURE() << "no terminal can be made";
    return ended;
  }
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = ::read(terminal, bytes.data(), bytes.size())) > 0;)
    ended.out.append(bytes.data(), static_cast<std::size_t>(count));
  std::erase(ended.out, '\r');
  ended.code = end_of(process).code;
  ::close(terminal);
  return ended;
}

nlohmann::json Program::json_of(const std::vector<std::string>& arguments, const How& how) const {
  const Ended ended = volta(arguments, how);
  EXPECT_EQ(ended.err, "");
  const nlohmann::json document = nlohmann::json::parse(ended.out, nullptr, false);
  EXPECT_FALSE(document.is_discarded()) << ended.out;
  return document;
}

std::string Program::complaint(const std::vector<std::string>& arguments, int code,
                               const How& how) const {
  const Ended ended = volta(arguments, how);
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_EQ(ended.out, "");
  const std::vector<std::string> lines = lines_of(ended.err);
  EXPECT_EQ(lines.size(), 1U) << ended.err;
  if (lines.empty()) return {};
  EXPECT_TRUE(std::ranges::none_of(lines[0], [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c));
  })) << lines[0];
  EXPECT_TRUE(lines[0].starts_with("volta")) << lines[0];
  return lines[0];
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace volta::cli
