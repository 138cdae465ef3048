// Text that arrives in pieces of bytes, shown as soon as it is settled: whole characters, and not
// what may be the beginning of a stop text.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "terminal.h"

namespace volta::cli {

class TextStream {
 public:
  // `out` may be null: then the text is only collected.
  TextStream(std::ostream* out, const Terminal& terminal, std::vector<std::string> stops);

  // Shown at once, as valid UTF-8, and no part of text().
  void show(std::string_view text);
  // False once a stop text was met; it is not shown, nor what is behind it.
  bool add(std::string_view bytes);
  // Shows the rest, and ends the line.
  void finish();
  // Whether it can be written no more.
  bool failed() const { return out_ != nullptr && !out_->good(); }

  const std::string& text() const { return text_; }  // valid UTF-8

 private:
  void put(std::string_view text);
  void settle(std::size_t bytes);  // of pending_
  std::size_t possible_stop() const;

  std::ostream* out_;
  const Terminal& terminal_;
  std::vector<std::string> stops_;
  std::string pending_, text_;
  bool line_open_ = false;
};

}  // namespace volta::cli
