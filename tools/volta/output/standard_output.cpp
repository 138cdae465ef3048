#include "output/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace volta::cli {

int OutputBuffer::sync() {
  std::string_view rest = pending_;
  while (failure_ == 0 && !rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      failure_ = errno;
    }
  }
  pending_.clear();
  if (failure_ == 0) return 0;
  errno = failure_;
  return -1;
}

std::streamsize OutputBuffer::xsputn(const char* text, std::streamsize count) {
  constexpr std::size_t kLargest = 1 << 16;
  const std::string_view added(text, static_cast<std::size_t>(count));
  pending_ += added;
  const bool due =
      pending_.size() >= kLargest || (by_lines_ && added.find('\n') != std::string_view::npos);
  return due && sync() != 0 ? 0 : count;
}

OutputBuffer::int_type OutputBuffer::overflow(int_type character) {
  if (traits_type::eq_int_type(character, traits_type::eof()))
    return traits_type::not_eof(character);
  const char one = traits_type::to_char_type(character);
  return xsputn(&one, 1) == 1 ? character : traits_type::eof();
}

}  // namespace volta::cli
