// What a stream's terminal, if it is one, can show.
#pragma once

#include <string>
#include <string_view>

namespace volta::cli {

struct Terminal {
  bool interactive = false;  // a terminal, and not a file or a pipe
  int columns = 80;          // $COLUMNS, or the terminal's own
  bool wraps = false;        // lines longer than `columns` would be broken; not in files and pipes
  bool colour = false;       // interactive, without $NO_COLOR, not TERM=dumb
  bool unicode = false;      // the locale is UTF-8

  // Of a file descriptor; set_locale() was called before.
  static Terminal of(int descriptor);

  std::string bold(std::string_view text) const { return styled("1", text); }
  std::string dim(std::string_view text) const { return styled("2", text); }
  std::string red(std::string_view text) const { return styled("31", text); }
  std::string green(std::string_view text) const { return styled("32", text); }
  std::string yellow(std::string_view text) const { return styled("33", text); }

  std::string_view ellipsis() const { return unicode ? "…" : "~"; }

 private:
  std::string styled(const char* code, std::string_view text) const;
};

// Takes the character set from the environment (LC_ALL, LC_CTYPE, LANG).
void set_locale();

// Text of unknown origin, safe to show: control characters and bytes that are no UTF-8 become
// \x1b; without Unicode all others than ASCII do.
std::string printable(std::string_view text, const Terminal& terminal);

// Columns that printable text takes.
int display_width(std::string_view text);
// The text, or as much of its beginning as fits into `columns` with an ellipsis.
std::string shortened(std::string_view text, int columns, const Terminal& terminal);
// Paragraphs broken at spaces; lines after the first begin with `indent` spaces.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace volta::cli
