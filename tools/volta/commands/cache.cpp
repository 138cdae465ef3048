// volta cache: the folder of compiled kernels.
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "command.h"
#include "output/units.h"
#include "volta/kernel_cache.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_of(const std::vector<KernelCacheFile>& files) {
  std::uint64_t bytes = 0;
  for (const KernelCacheFile& file : files) bytes += file.bytes;
  return bytes;
}

std::size_t files_in(const std::string& folder) {
  std::error_code failure;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder, failure), fs::directory_iterator()));
}

int run_cache(const Context& context, bool clear) {
  const std::string folder = kernel_cache_folder();
  const std::vector<KernelCacheFile> files = clear ? clear_kernel_cache() : kernel_cache_files();
  const std::uint64_t bytes = bytes_of(files);
  if (context.json) {
    Json list = Json::array();
    for (const KernelCacheFile& file : files)
      list.push_back({{"path", file.path}, {"bytes", file.bytes}});
    context.print({{"folder", folder.empty() ? Json() : Json(folder)},
                   {"cleared", clear},
                   {"files", std::move(list)},
                   {"bytes", bytes}});
    return kSuccess;
  }
  const auto say = [&](const std::string& text) {
    context.out << wrapped(printable(text, context.terminal), context.terminal.columns, 2) << '\n';
  };
  if (folder.empty()) {
    say("no folder: none of VOLTA_CACHE_DIR, XDG_CACHE_HOME and HOME is set; kernels are compiled "
        "in every process");
    return kSuccess;
  }
  if (clear) {
    say(fmt::format("{}: removed {}, {}", folder, plural(files.size(), "file"),
                    human_bytes(bytes)));
  } else {
    say(fmt::format("{}: {} of compiled kernels and timed choices, {}", folder,
                    plural(files.size(), "file"), human_bytes(bytes)));
  }
  const std::size_t others = files_in(folder) - (clear ? 0 : files.size());
  if (others > 0)
    say(fmt::format("{} there not Volta's, left alone",
                    others == 1 ? "1 entry is" : human_count(others) + " entries are"));
  return kSuccess;
}

}  // namespace

void add_cache(CLI::App& app, Context& context) {
  struct Options {
    bool clear = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "cache", "Show or clear the folder of compiled kernels and timed choices",
                  "volta cache\nvolta cache --clear  # kernels are compiled again when needed\n"
                  "VOLTA_CACHE_DIR=/tmp/kernels volta cache");
  command->add_flag("--clear", options->clear, "Remove Volta's files there, and no others");
  add_json(*command, context);
  on_run(*command, context, [&context, options] { return run_cache(context, options->clear); });
}

}  // namespace volta::cli
