// A run's config.json and the lines of its metrics.jsonl, of any bytes. The first byte selects one
// of them.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "command.h"
#include "json_file.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "volta/error.h"

namespace {

const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    std::string name = (std::filesystem::temp_directory_path() / "volta_fuzz_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    return std::filesystem::path(name);
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using volta::cli::RunFolder;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool metrics = data[0] % 2 == 1;
  std::ofstream(folder() / "config.json", std::ios::binary) << (metrics ? "{}" : text);
  std::ofstream(folder() / "metrics.jsonl", std::ios::binary) << (metrics ? text : "");
  try {
    const RunFolder run = RunFolder::open(folder());
    run.read_metrics([](const volta::cli::Json& metric, std::string_view line) {
      if (!metric.contains("step") || line.empty()) std::abort();
    });
    if (!metrics) volta::cli::read_run(run);
  } catch (const volta::Error&) {
  } catch (const volta::cli::UsageError&) {
  }
  return 0;
}
