#include "output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "command.h"
#include "volta/error.h"

namespace volta::cli {

namespace fs = std::filesystem;

void check_output(const std::string& path, bool force) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);  // checks the link itself
  if (fs::is_directory(status))
    throw UsageError(fmt::format("{}: a folder of this name exists", path));
  if (fs::exists(status) && !force)
    throw UsageError(fmt::format("{}: the file exists; --force replaces it", path));
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_symlink(status))
    throw UsageError(fmt::format("{}: not a file, and not to be replaced by one", path));
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return;
  if (errno == ENOENT) throw IoError(fmt::format("{}: there is no folder {}", path, folder));
  throw IoError(
      fmt::format("{}: cannot write into the folder {}: {}", path, folder, std::strerror(errno)));
}

}  // namespace volta::cli
