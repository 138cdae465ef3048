// The capabilities of a stream's terminal, if it is one.
#pragma once

#include <string>
#include <string_view>

namespace volta::cli {

struct Terminal {
  bool interactive = false;  // a terminal, not a file or a pipe
  int columns = 80;          // $COLUMNS, or the terminal's own
  bool wraps = false;        // long lines are broken at `columns`; not in files and pipes
  bool colour = false;       // interactive, without $NO_COLOR, not TERM=dumb
  bool unicode = false;      // the locale is UTF-8

  // Describes a file descriptor. set_locale() must have been called before.
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

// Makes text of unknown origin safe to show: control characters and invalid UTF-8 become codes such
// as \x1b, and without Unicode so do all characters beyond ASCII.
std::string printable(std::string_view text, const Terminal& terminal);

// The number of columns that printable text takes.
int display_width(std::string_view text);
// Returns the text, or as much of its beginning as fits into `columns` with an ellipsis.
std::string shortened(std::string_view text, int columns, const Terminal& terminal);
// Breaks paragraphs at spaces. Lines after the first begin with `indent` spaces.
std::string wrapped(std::string_view text, int columns, int indent);

}  // namespace volta::cli
