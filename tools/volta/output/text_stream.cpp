#include "output/text_stream.h"

#include <algorithm>
#include <utility>

#include "output/utf8.h"
#include "volta/detail/utf8.h"

namespace volta::cli {
namespace {

// A terminal gets lines and tabs, and no other control characters; files get the text.
std::string shown(std::string_view text, const Terminal& terminal) {
  if (!terminal.interactive) return std::string(text);
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    result += printable(text.substr(0, end), terminal);
    if (end < text.size()) result += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace

TextStream::TextStream(std::ostream* out, const Terminal& terminal, std::vector<std::string> stops)
    : out_(out), terminal_(terminal), stops_(std::move(stops)) {
  std::erase(stops_, "");
}

void TextStream::show(std::string_view text) {
  if (text.empty()) return;
  line_open_ = text.back() != '\n';
  put(shown(detail::valid_utf8(text), terminal_));
}

void TextStream::put(std::string_view text) {
  if (out_ == nullptr || !out_->good()) return;
  *out_ << text << std::flush;
}

bool TextStream::add(std::string_view bytes) {
  pending_ += bytes;
  std::size_t stop = std::string::npos;
  for (const std::string& one : stops_) stop = std::min(stop, pending_.find(one));
  if (stop != std::string::npos) {
    pending_.resize(stop);
    return false;
  }
  const std::size_t held = possible_stop();
  const std::string_view free = std::string_view(pending_).substr(0, pending_.size() - held);
  settle(free.size() - unfinished_bytes(free));
  return true;
}

void TextStream::finish() {
  settle(pending_.size());
  if (line_open_) put("\n");
  line_open_ = false;
}

void TextStream::settle(std::size_t bytes) {
  const std::string settled = detail::valid_utf8(std::string_view(pending_).substr(0, bytes));
  pending_.erase(0, bytes);
  text_ += settled;
  show(settled);
}

// The length of the longest end of the pending text that begins a stop text.
std::size_t TextStream::possible_stop() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, pending_.size()); size > longest; --size) {
      if (pending_.ends_with(std::string_view(stop).substr(0, size))) {
        longest = size;
        break;
      }
    }
  }
  return longest;
}

}  // namespace volta::cli
