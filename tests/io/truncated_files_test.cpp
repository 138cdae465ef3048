// Readers of files that another process truncates meanwhile.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "io/io_files.h"
#include "platform/files.h"
#include "support/paths.h"
#include "volta/data/csv.h"
#include "volta/data/idx.h"
#include "volta/data/images.h"
#include "volta/data/text.h"
#include "volta/io/npy.h"
#include "volta/log.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

using TruncatedFiles = TemporaryFolder;

// Another process truncates the file and writes it again, over and over. A reader that touches the
// pages of a mapping dies of it.
TEST_F(TruncatedFiles, ReadersSurvive) {
  struct Reader {
    std::string name;
    std::function<void(const std::string&)> write, read;
  };
  StateDict several;
  for (int i = 0; i < 50; ++i) several.add("t" + std::to_string(i), full({2000}, i));
  const auto write = [](const std::string& content) {
    return [content](const std::string& file) { std::ofstream(file, std::ios::binary) << content; };
  };
  const auto golden = [](const char* name) {
    return [name](const std::string& file) {
      fs::copy_file(fs::path(paths::golden_dir()) / "torch_files" / name, file);
    };
  };
  const auto load_any = [](const std::string& file) { load(file); };
  std::string idx("\0\0\x08\1\0\1\0\0", 8);
  idx.resize(8 + 65536);
  std::string csv = "a,b\n";
  for (int i = 0; i < 20'000; ++i) csv += "1,2\n";
  const std::vector<Reader> readers = {
      {"safetensors", [&](const std::string& file) { save(several, file); }, load_any},
      {"npy", [](const std::string& file) { save_npy(ones({20'000}), file); },
       [](const std::string& file) { load_npy(file); }},
      {"npz", [&](const std::string& file) { save_npz(several, file); },
       [](const std::string& file) { load_npz(file); }},
      {"deflated", [&](const std::string& file) { save_npz(several, file, {.compress = true}); },
       [](const std::string& file) { load_npz(file); }},
      {"pt", golden("state_dict.pt"), load_any},
      {"old", golden("old_format.pt"), load_any},
      {"csv", write(csv), [](const std::string& file) { data::read_csv(file); }},
      {"idx", write(idx), [](const std::string& file) { data::read_idx(file); }},
      {"cifar", write(std::string(std::size_t{3073} * 40, '\0')),
       [](const std::string& file) { data::cifar10_files({file}); }},
      {"text", write(std::string(200'000, 'x')),
       [](const std::string& file) { data::CharCorpus::from_file(file); }}};
  for (const Reader& reader : readers) {
    const std::string file = path(reader.name);
    reader.write(file);
    const std::string content = platform::read_file(file);
    const pid_t writer = fork();
    if (writer == 0) {
      const int descriptor = ::open(file.c_str(), O_WRONLY);
      for (;;) {
        bool failed = ::ftruncate(descriptor, 0) != 0;
        failed = ::pwrite(descriptor, content.data(), content.size(), 0) < 0 || failed;
        if (failed) _exit(1);
        ::usleep(20);
      }
    }
    const pid_t child = fork();
    if (child == 0) {
      set_log_handler([](LogLevel, std::string_view) {});
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
      while (std::chrono::steady_clock::now() < end) problem_of([&] { reader.read(file); });
      _exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << reader.name << ": " << status;
    ::kill(writer, SIGKILL);
    ::waitpid(writer, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << reader.name << ": the writer ended by itself";
  }
}

}  // namespace
}  // namespace volta
