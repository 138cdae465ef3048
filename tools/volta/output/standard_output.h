// The standard output with the error of a failed write, because errno is lost when a large result
// is flushed in the middle.
#pragma once

#include <cstddef>
#include <streambuf>
#include <string>

namespace volta::cli {

class OutputBuffer : public std::streambuf {
 public:
  // On a terminal, output is flushed after whole lines.
  OutputBuffer(int descriptor, bool by_lines) : descriptor_(descriptor), by_lines_(by_lines) {}

  // The errno of the write that failed, or 0.
  int failure() const { return failure_; }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;  // sets errno on failure

 private:
  int descriptor_;
  bool by_lines_;
  int failure_ = 0;
  std::string pending_;
};

}  // namespace volta::cli
