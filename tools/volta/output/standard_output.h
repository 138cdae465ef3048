// The standard output, which remembers why it could not be written: errno is long lost where a
// large result is flushed in the middle.
#pragma once

#include <cstddef>
#include <streambuf>
#include <string>

namespace volta::cli {

class OutputBuffer : public std::streambuf {
 public:
  // On a terminal whole lines are shown at once.
  OutputBuffer(int descriptor, bool by_lines) : descriptor_(descriptor), by_lines_(by_lines) {}

  // The errno of the write that failed; 0: none did.
  int failure() const { return failure_; }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;  // sets errno where it fails

 private:
  int descriptor_;
  bool by_lines_;
  int failure_ = 0;
  std::string pending_;
};

}  // namespace volta::cli
