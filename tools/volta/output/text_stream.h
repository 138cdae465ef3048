// Text that arrives in pieces of bytes and is shown as soon as possible: as whole characters,
// without the possible beginning of a stop text.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "output/terminal.h"

namespace volta::cli {

class TextStream {
 public:
  // If `out` is null, the text is only collected.
  TextStream(std::ostream* out, const Terminal& terminal, std::vector<std::string> stops);

  // Shows text at once as valid UTF-8, without adding it to text().
  void show(std::string_view text);
  // Returns false once a stop text was found. The stop text and anything after it are not shown.
  bool add(std::string_view bytes);
  // Shows the rest and ends the line.
  void finish();
  // Returns whether writing has failed.
  bool failed() const { return out_ != nullptr && !out_->good(); }

  const std::string& text() const { return text_; }  // valid UTF-8

 private:
  void put(std::string_view text);
  void settle(std::size_t bytes);  // moves this many bytes out of pending_
  std::size_t possible_stop() const;

  std::ostream* out_;
  const Terminal& terminal_;
  std::vector<std::string> stops_;
  std::string pending_, text_;
  bool line_open_ = false;
};

}  // namespace volta::cli
