// The public operations as declared in the headers. docs/ops.md is made from them, and other tests
// must cover all of them.
#pragma once

#include <string>
#include <vector>

namespace volta::declarations {

struct Operation {
  std::string name;
  std::vector<std::string> signatures;  // one line each, without the source location
  std::vector<std::string> comments;
  std::vector<std::string> types;  // option structs that the signatures use
};

// The declarations under one "// ---- Title." of a header.
struct Group {
  std::string title;
  std::string introduction;  // the rest of that comment; may be empty
  std::vector<Operation> operations;
};

// Parses a header's text: all declarations, or the methods of a class. `types` is the text with
// option structs from elsewhere.
std::vector<Group> parse_header(const std::string& text, const std::string& types = "");
std::vector<Group> parse_class(const std::string& text, const std::string& name);

// The functions of ops.h, then the methods of Tensor that are operations without a function in
// ops.h.
const std::vector<Group>& public_operations();

// Paths and contents of files in the source tree.
std::string source_path(const std::string& path);
std::string read_source(const std::string& path);

}  // namespace volta::declarations
